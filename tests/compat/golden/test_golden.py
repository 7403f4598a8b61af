"""Spark's golden queries: each is answered as Spark answers it, refused with a message that helps, or listed.

Where Spark refuses a statement, it may be answered here; no statement may raise what is no declared error.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.errors import QueryError
from tests.compat.cases import NO_DATA, PEERS
from tests.compat.golden import outcomes as o
from tests.compat.golden.compare import wrong_with
from tests.compat.golden.data import CASES, Golden, View, arrow_type, cases
from tests.compat.golden.poor import distance, poor
from tests.compat.golden.reading import with_stream
from tests.compat.golden.run import answer

needs_data = pytest.mark.skipif(not CASES.is_file(), reason=NO_DATA)
PAGE = Path(__file__).parents[3] / "docs" / "elf-ql.md"
FILES = sorted({case.file for case in cases()})
FAILING = (o.POOR, o.WRONG, o.CRASHED)


@pytest.mark.parametrize("file", FILES)
def test_every_query_is_answered_as_spark_does_or_refused_or_listed(file: str) -> None:
    still = o.listed(o.OPEN_CASES)
    found = o.outcomes([file])
    news = [each for each in found if each.state in FAILING and still.get(each.name) != each.state]
    assert not news, "\n".join(f"{each.name}: {each.state} ({each.kind}): {each.why}" for each in news)
    equal = [each.name for each in found if each.state == o.EQUAL and each.name in o.documented()]
    assert not equal, f"no difference any more, take them out of {o.DOCUMENTED_CASES.name}: {equal}"


@needs_data
def test_lists_name_cases() -> None:
    names = {case.name for case in cases()}
    assert {*o.documented(), *o.listed(o.OPEN_CASES)} <= names


def test_every_kind_of_difference_stands_in_the_documentation() -> None:
    text = PAGE.read_text(encoding="utf-8")
    section = text.partition("## Differences from Spark")[2].partition("\n## ")[0]
    there = set(re.findall(r'<a id="([a-z-]+)"></a>', section))
    assert there
    assert set(o.documented().values()) <= there


def test_the_data_is_where_other_cases_are() -> None:
    assert CASES.is_relative_to(PEERS)


# -- The runner itself


def golden(text: str, rows: list[tuple[object, ...]], kind: str = "int") -> Golden:
    view = View((("k", "string"), ("v", "int")), (("a", 1), ("b", 2), ("c", None)))
    return Golden("file", 1, text, {"T": view}, (("x", kind),), tuple(rows), True, "")


@pytest.mark.parametrize(
    ("text", "rows", "wrong"),
    [
        ("SELECT v AS x FROM t", [(2,), (None,), (1,)], ""),
        ("SELECT v AS x FROM t", [(2,), (None,)], "3 rows instead of 2"),
        ("SELECT v AS x FROM t", [(2,), (None,), (3,)], "a row is 1 instead of 2"),
        ("SELECT v AS x FROM t ORDER BY v", [(None,), (1,), (2,)], ""),
        ("SELECT v AS x FROM t ORDER BY x DESC", [(None,), (1,), (2,)], "the rows are in another order"),
        ("SELECT k AS x FROM t WHERE v = 1", [(1,)], "the type of x is string instead of int"),
        ("SELECT v AS x, k FROM t", [(1,)], "2 columns instead of 1"),
    ],
)
def test_answers_are_compared_by_type_value_and_order(
    text: str, rows: list[tuple[object, ...]], wrong: str
) -> None:
    case = golden(text, rows)
    assert wrong_with(case, answer(case)) == wrong


def test_doubles_are_compared_nearly_and_decimals_by_their_scale() -> None:
    case = golden("SELECT 1", [(0.1 + 0.2,)], "double")
    assert wrong_with(case, pa.table({"x": [0.3]})) == ""
    assert "instead of" in wrong_with(case, pa.table({"x": [0.3001]}))
    case = golden("SELECT 1", [({"dec": "1.50"},)], "decimal(3,2)")
    exact = pa.array(["1.50"]).cast(pa.decimal128(5, 2))
    assert wrong_with(case, pa.table({"x": exact})) == ""
    assert "the type of x" in wrong_with(case, pa.table({"x": exact.cast(pa.decimal128(5, 3))}))


def test_what_is_no_declared_error_is_a_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    def crash(_: Golden) -> pa.Table:
        raise KeyError("x")

    monkeypatch.setattr(o, "answer", crash)
    assert o.outcome(golden("SELECT 1", [])).state == o.CRASHED


def test_a_refusal_with_place_and_remedy_is_good() -> None:
    case = golden("SELECT lowre(k) AS x FROM t", [])
    with pytest.raises(QueryError) as caught:
        answer(case)
    assert poor(case, caught.value) == ""


@pytest.mark.parametrize(
    ("message", "hint", "kind"),
    [
        ("unknown function v", "Did you mean value?", "far suggestion"),
        ("unknown function v", "Did you mean vv?", ""),
        ("unknown function t", "Write it.", "a named query is taken for a function"),
        ("the type TIMESTAMP is not supported", "There are DATE, TIMESTAMP.", "a type that was not written"),
        ("JOINS is not supported", "Write it.", "a word that was not written"),
        ("RANGE is not for decimal128(1, 0)", "Write ROWS.", "an internal name"),
        ("there is no column v", "There are *.", "an internal name"),
        ("v may be a column of several inputs", "Write int4_tbl.v or u.v.", ""),
        ("v does not work", "", "no remedy"),
    ],
)
def test_kinds_of_poor_messages(message: str, hint: str, kind: str) -> None:
    case = golden("WITH t(a) AS (SELECT 1) SELECT v FROM t", [])
    assert poor(case, QueryError(message, line=1, column=32, hint=hint)) == kind
    assert poor(case, QueryError(message, hint=hint)) == "no place"


def test_a_name_of_the_outer_query_is_no_misspelt_one() -> None:
    case = golden("SELECT v FROM t WHERE EXISTS (SELECT 1 FROM u WHERE w = v)", [])
    case = replace(case, views={**case.views, "u": View((("w", "int"),), ())})
    error = QueryError("u has no column v", line=1, column=57, hint="Did you mean w?")
    assert poor(case, error) == "a column of another input"
    error.hint = "Write t.v."
    assert poor(case, error) == ""


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("SELECT 1", "SELECT 1 FROM one"),
        ("SELECT 1 WHERE true", "SELECT 1 FROM one WHERE true"),
        ("SELECT extract(DAY FROM x) FROM t", "SELECT extract(DAY FROM x) FROM t"),
        ("SELECT 1 IS DISTINCT FROM 2", "SELECT 1 IS DISTINCT FROM 2 FROM one"),
        ("SELECT (SELECT 'FROM') FROM t", "SELECT (SELECT 'FROM' FROM one ) FROM t"),
        ("SELECT (SELECT (SELECT 1 + 2))", "SELECT (SELECT (SELECT 1 + 2 FROM one ) FROM one ) FROM one"),
        ("SELECT mode() WITHIN GROUP (ORDER BY v) FROM t", "SELECT mode() WITHIN GROUP (ORDER BY v) FROM t"),
        ("SELECT 1 AS `minus` FROM t", "SELECT 1 AS `minus` FROM t"),
        ("SELECT 1 ORDER BY 1", "SELECT 1 FROM one ORDER BY 1"),
        ("SELECT window.start, 1 FROM t", "SELECT window.start, 1 FROM t"),
        ("SELECT 1 UNION SELECT 2", "SELECT 1 FROM one UNION SELECT 2 FROM one"),
    ],
)
def test_statements_without_input_read_a_record(text: str, asked: str) -> None:
    assert with_stream(text) == asked


def test_types_are_read_as_spark_writes_them() -> None:
    assert arrow_type("array<map<int,int>>") == pa.list_(pa.map_(pa.int32(), pa.int32()))
    nested = pa.struct([("a", pa.decimal128(3, 1)), ("b", pa.list_(pa.string()))])
    assert arrow_type("struct<a:decimal(3,1),b:array<string>>") == nested
    assert arrow_type("interval day to second") == pa.duration("us")
    with pytest.raises(ValueError, match="ends with"):
        arrow_type("int)")


def test_distance_counts_letters() -> None:
    assert [distance("", "ab"), distance("lowre", "lower"), distance("a", "a")] == [2, 2, 0]
