"""LATERAL VIEW, UNNEST and maps where Spark has no say: JSON text, other spellings, limits, what is shown."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.api.explain import explain
from elfmesh.errors import QueryError
from elfmesh.ql import parse
from elfmesh.ql.engine.relational import Relational
from elfmesh.ql.values.row_json import rows_to_json
from tests.ql.conftest import run

Rows = Callable[..., list[tuple[Any, ...]]]
TAGS = [["x", "y"], [], None, ["y", None], ["x"]]
COUNTS = [{"a": 1, "b": 2}, {}, None, {"a": None}, {"c": "x"}]
LOG = pa.table(
    {
        "k": ["a", "b", "c", "a", "d"],
        "tags": [None if each is None else json.dumps(each) for each in TAGS],
        "m": [None if each is None else json.dumps(each) for each in COUNTS],
        "n": [1, 2, 3, 4, None],
    }
)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, e FROM s LATERAL VIEW explode(tags) t AS e",
        "SELECT k, e FROM s CROSS JOIN UNNEST(tags) AS t(e)",
        "SELECT k, t.e FROM s CROSS JOIN UNNEST(tags) t(e)",
        "SELECT k, e FROM s JOIN LATERAL explode(tags) AS t(e)",
        "SELECT k, explode(tags) AS e FROM s",
        "SELECT k, e FROM s LATERAL VIEW posexplode(tags) t AS p, e",
        "SELECT x.k, e FROM (SELECT k, tags FROM s) x LATERAL VIEW explode(x.tags) t AS e",
    ],
)
def test_every_spelling_gives_a_row_for_each_element(text: str, rows_of: Rows) -> None:
    assert sorted(rows_of(text, LOG), key=str) == [
        ("a", "x"), ("a", "y"), ("a", "y"), ("a", None), ("d", "x"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "text",
    [
        "SELECT k, e, p FROM s LEFT JOIN UNNEST(tags) WITH ORDINALITY AS t(e, p) ON TRUE WHERE n > 1",
        "SELECT k, e, p + 1 FROM s LATERAL VIEW OUTER posexplode(tags) t AS p, e WHERE n > 1",
    ],
)
def test_rows_without_elements_stay_with_nulls(text: str, rows_of: Rows) -> None:
    found = sorted(rows_of(text, LOG), key=str)
    assert found == [("a", "y", 1), ("a", None, 2), ("b", None, None), ("c", None, None)]


def test_an_object_of_a_log_is_a_map_of_text(rows_of: Rows) -> None:
    text = "SELECT k, name, v FROM s LATERAL VIEW explode(m) t AS name, v"
    found = sorted(rows_of(text, LOG), key=str)
    assert found == [("a", "a", "1"), ("a", "a", None), ("a", "b", "2"), ("d", "c", "x")]
    text = """SELECT m[k] AS own, element_at(m, 'b') AS b, map_keys(m) AS names,
                     size(from_json(m, 'MAP<STRING, STRING>')) AS n FROM s ORDER BY s.n"""
    assert rows_of(text, LOG) == [
        (None, None, ["c"], 1), ("1", "2", ["a", "b"], 2), (None, None, [], 0), (None, None, None, -1),
        (None, None, ["a"], 1),
    ]  # fmt: skip


def test_elements_are_filtered_and_grouped_beside_the_fields_of_their_record(rows_of: Rows) -> None:
    text = """SELECT e, count(*) AS c, sum(n) AS total FROM s LATERAL VIEW explode(tags) t AS e
              WHERE n IS NOT NULL AND e <> 'z' GROUP BY e ORDER BY e"""
    assert rows_of(text, LOG) == [("x", 1, 1), ("y", 2, 5)]
    (part,) = parse(text).parts
    assert part.plan.where is not None, "what needs the record alone is asked on the agents"


@pytest.mark.parametrize("batch_rows", [1, 2, 5])
def test_rows_do_not_depend_on_how_the_records_come(batch_rows: int, rows_of: Rows) -> None:
    text = "SELECT k, e, count(*) AS c FROM s LATERAL VIEW explode(tags) t AS e GROUP BY ALL"
    expected = [("a", None, 1), ("a", "x", 1), ("a", "y", 2), ("d", "x", 1)]
    assert rows_of(text, LOG, batch_rows=batch_rows) == expected


def test_a_view_sees_the_inputs_before_it_only(rows_of: Rows) -> None:
    text = """SELECT k, e, f FROM s LATERAL VIEW explode(tags) t AS e
              LATERAL VIEW explode(array(e, upper(e))) u AS f WHERE n = 1"""
    assert rows_of(text, LOG) == [("a", "x", "X"), ("a", "x", "x"), ("a", "y", "Y"), ("a", "y", "y")]
    text = "SELECT f FROM s LATERAL VIEW explode(u.f) t AS e LATERAL VIEW explode(tags) u AS f WHERE n = 1"
    assert rows_of(text, LOG) == [], "u.f is a field of the record there, and no record has it"


def test_of_a_field_and_an_element_of_one_name_the_element_is_meant(rows_of: Rows) -> None:
    text = "SELECT n, s.n AS own FROM s LATERAL VIEW explode(tags) t AS n WHERE s.n = 4"
    assert rows_of(text, LOG) == [(None, 4), ("y", 4)]
    text = "SELECT t.n AS n, count(*) AS c FROM s LATERAL VIEW explode(tags) t AS n GROUP BY n ORDER BY n"
    assert rows_of(text, LOG) == [(None, 1), ("x", 2), ("y", 2)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT k FROM s LATERAL VIEW explode(n) t AS e", "1:38: explode takes a list, not BIGINT"),
        ("SELECT k FROM s LATERAL VIEW explode(map(k, n)) t AS e", "1:30: an element has 2 columns"),
        ("SELECT k FROM s LATERAL VIEW explode(array(n)) t AS k, v", "1:30: an element has 1 column"),
        ("SELECT k FROM s LATERAL VIEW inline(array(n)) t AS v", "1:30: inline takes a list of structs"),
        ("SELECT map(array(n), k) AS m FROM s", "ARRAY<BIGINT> cannot be the key of a map"),
        ("SELECT map(n, k)['x'] AS m FROM s", "STRING is not the key type of MAP<BIGINT,STRING>"),
        (
            "SELECT m, count(*) AS c FROM (SELECT map(k, n) AS m FROM s) t GROUP BY m",
            "cannot be grouped",
        ),
        ("SELECT map_concat(map(k, n), map(n, k)) AS m FROM s", "MAP<STRING,BIGINT> and MAP<BIGINT,STRING>"),
        ("SELECT map_keys(n) AS m FROM s", "map_keys takes a map, not BIGINT"),
    ],
)
def test_what_the_types_do_not_allow_is_refused_at_its_place(text: str, message: str) -> None:
    with pytest.raises(QueryError) as caught:
        run(text, LOG)
    assert message in str(caught.value)


def test_a_key_that_is_null_or_there_twice_makes_no_map(rows_of: Rows) -> None:
    text = """SELECT map(k, n, 'a', 0) AS m, map(nullif(k, 'b'), 1) AS o,
                     str_to_map('a=1&a=2', '&', '=') AS q FROM s ORDER BY k"""
    rows = [[None if each is None else dict(each) for each in row] for row in rows_of(text, LOG)]
    assert rows == [
        [None, {"a": 1}, None], [None, {"a": 1}, None], [{"b": 2, "a": 0}, None, None],
        [{"c": 3, "a": 0}, {"c": 1}, None], [{"d": None, "a": 0}, {"d": 1}, None],
    ]  # fmt: skip


def test_a_choice_between_a_map_and_nothing_is_a_map(rows_of: Rows) -> None:
    text = """SELECT IF(n > 2, map('y', n), NULL) AS a, CASE WHEN n = 1 THEN map('z', n) END AS b,
                     coalesce(from_json(m, 'MAP<STRING, STRING>'), map('x', k)) AS c FROM s WHERE n > 2"""
    assert rows_of(text, LOG) == [([("y", 3)], None, [("x", "c")]), ([("y", 4)], None, [("a", None)])]


def test_maps_are_shown_as_objects_wherever_they_are() -> None:
    text = """SELECT map() AS none, array(map('a', 1.5D)) AS inner, map(DATE '2015-05-17', 0.5D) AS dated,
                     map('x', map(1, 'y')) AS outer, map_entries(map('k', 1)) AS pairs FROM s LIMIT 1"""
    (row,) = rows_to_json(run(text, LOG)[0])
    assert row == {
        "none": {}, "inner": [{"a": 1.5}], "dated": {"2015-05-17": 0.5}, "outer": {"x": {"1": "y"}},
        "pairs": [{"key": "k", "value": 1}],
    }  # fmt: skip


def test_too_many_elements_fail_the_interval_before_they_are_made() -> None:
    statement = parse("SELECT e FROM s LATERAL VIEW explode(split(k, '')) t AS e")
    table = pa.table({"#0": ["x" * 100]})
    with pytest.raises(QueryError, match="100 rows"):
        Relational(statement, rows_max=99).table(lambda part, scalars: table, None)


def test_no_records_and_missing_fields_have_no_elements(rows_of: Rows) -> None:
    text = """SELECT k, e, f FROM s LATERAL VIEW OUTER explode(gone) t AS e
              LATERAL VIEW OUTER explode(gone) u AS f, g"""
    assert rows_of(text, LOG.slice(0, 1)) == [("a", None, None)]
    assert rows_of(text, LOG.slice(0, 0)) == []


def test_nested_values_go_through_queries_in_brackets(rows_of: Rows) -> None:
    text = """SELECT k, m, words FROM (SELECT k, n, map('n', n) AS m, split(k, '') AS words FROM s) t
              WHERE m['n'] > 1 ORDER BY m['n'] DESC LIMIT 2"""
    assert rows_of(text, LOG) == [("a", [("n", 4)], ["a"]), ("c", [("n", 3)], ["c"])]
    text = "SELECT words FROM (SELECT split('x', '') AS words FROM s) t"
    assert rows_of(text, LOG) == [(["x"],)] * 5, "equal rows come as often as they are"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "SELECT k, n FROM s QUALIFY rank() OVER (PARTITION BY k ORDER BY n DESC) = 1 ORDER BY k LIMIT 2",
            [("a", 4), ("b", 2)],
        ),
        (
            "SELECT k, rank() OVER (ORDER BY n DESC) AS r FROM s QUALIFY r <= 2",
            [("a", 1), ("c", 2)],
        ),
        ("SELECT k, sum(n) AS t FROM s GROUP BY ALL QUALIFY rank() OVER (ORDER BY t DESC) = 1", [("a", 5)]),
        (
            "SELECT k, sum(n) OVER w AS t FROM s WINDOW w AS (PARTITION BY k) QUALIFY t > 4",
            [("a", 5), ("a", 5)],
        ),
        (
            "SELECT n, sum(n) OVER w AS t FROM s WHERE n > 0 WINDOW w AS (ORDER BY n ROWS 1 PRECEDING)",
            [(1, 1), (2, 3), (3, 5), (4, 7)],
        ),
        ("SELECT DISTINCT k FROM s QUALIFY count(*) OVER (PARTITION BY k) > 1", [("a",)]),
        ("SELECT count(*) AS c FROM s GROUP BY ALL", [(5,)]),
        ("SELECT upper(k) AS u, 'x' AS x, count(*) AS c FROM s GROUP BY ALL HAVING c > 1", [("A", "x", 2)]),
    ],
)
def test_qualify_and_group_by_all(text: str, expected: list[tuple[Any, ...]], rows_of: Rows) -> None:
    assert rows_of(text, LOG) == expected


def test_explain_shows_what_is_taken_apart() -> None:
    text = "SELECT e FROM s LATERAL VIEW explode(split(k, ',')) t AS e WHERE n > 1"
    assert "a row for each element of split(s.k, ',')" in json.dumps(explain(parse(text)))
