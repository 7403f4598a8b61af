"""A name in a query in brackets is a column of its own inputs, else one of the row outside, else refused."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from elfmesh.control.jobs.plan import read_job, read_plan
from elfmesh.errors import QueryError
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun
from elfmesh.ql import declare, parse

COUNTED = "SELECT x1 FROM x WHERE (SELECT count(*) FROM y WHERE y1 = x1) = 1"
X, Y = "(SELECT x1, s FROM x)", "(SELECT y1 FROM y)"

DECLARED = {
    COUNTED: [3],
    "SELECT x1 FROM x WHERE x1 IN (SELECT y1 FROM y WHERE y1 = x1)": [1, 3],
    "SELECT x1 FROM x WHERE x1 NOT IN (SELECT y1 FROM y WHERE y1 > x1 - 2)": [2],
    "SELECT x1 FROM x WHERE NOT EXISTS (SELECT 1 FROM y WHERE y1 = x1)": [2],
    "SELECT x1 FROM x WHERE EXISTS (SELECT 1 FROM y WHERE y1 = x1 AND s = 'c')": [3],
    "SELECT x1 FROM x WHERE (SELECT max(x1) FROM (SELECT y1 AS x1 FROM y) q) = x1": [3],
}  # fmt: skip


def rows(text: str, root: Path, format: str = "csv:x1,s|csv:y1") -> list[object]:
    (root / "x").write_text("1,a\n2,b\n3,c\n")
    (root / "y").write_text("1\n1\n3\n")
    if format == "json":
        (root / "x").write_text('{"x1":1,"s":"a"}\n{"x1":2,"s":"b"}\n{"x1":3,"s":"c"}\n')
        (root / "y").write_text('{"y1":1}\n{"y1":1}\n{"y1":3}\n')
    forms = format.split("|") * (2 if format == "json" else 1)
    logs = {name: ([str(root / name)], StreamFormat(form)) for name, form in zip("xy", forms, strict=True)}
    statement = parse(text)
    kept = {name: log for name, log in logs.items() if name in statement.streams}
    tables = [each.table for each in LogRun(statement, [], streams=kept).answers()]
    return [int(row[0]) for row in pa.concat_tables(tables).to_pandas().to_numpy().tolist()]


@pytest.mark.parametrize("text", DECLARED)
def test_a_name_of_no_column_inside_is_one_of_the_row_outside(text: str, tmp_path: Path) -> None:
    assert rows(text, tmp_path) == DECLARED[text]


@pytest.mark.parametrize(
    "text",
    [
        f"WITH x AS {X}, y AS {Y} {COUNTED}",
        f"SELECT x1 FROM {X} x WHERE (SELECT count(*) FROM {Y} q WHERE y1 = x1) = 1",
        "SELECT x1 FROM x WHERE (SELECT count(*) FROM (SELECT y1 FROM y) AS q(a) WHERE a = x1) = 1",
        f"SELECT x1 FROM x WHERE (SELECT count(*) FROM (SELECT * FROM {Y} r) q WHERE y1 = x1) = 1",
    ],
)
def test_queries_have_the_columns_of_their_select_list(text: str, tmp_path: Path) -> None:
    assert rows(text, tmp_path, "json") == [3]


def test_where_no_record_inside_has_the_field_it_is_refused_at_its_place(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="no record of y has a value in x1") as caught:
        rows(COUNTED, tmp_path, "json")
    assert (caught.value.line, caught.value.column, caught.value.hint) == (1, 59, "Write x.x1 or y.x1.")
    assert rows(COUNTED.replace("= x1)", "= x.x1)"), tmp_path, "json") == [3]


def test_a_stream_without_records_has_no_field_to_miss(tmp_path: Path) -> None:
    text = "SELECT x1 FROM x WHERE x1 NOT IN (SELECT a FROM y WHERE b = 1)"
    (tmp_path / "x").write_text('{"x1":1}\n')
    (tmp_path / "y").write_text("")
    logs = {name: ([str(tmp_path / name)], StreamFormat("json")) for name in "xy"}
    (answer,) = LogRun(parse(text), [], streams=logs).answers()
    assert answer.table.to_pylist() == [{"x1": 1}]


def test_the_error_of_a_name_that_a_format_lacks_names_the_inputs_that_may_have_it(tmp_path: Path) -> None:
    with pytest.raises(QueryError, match="y has no column x1") as caught:
        rows(COUNTED, tmp_path, "json|csv:y1".replace("json|", "csv:z|"))
    assert (caught.value.column, caught.value.hint) == (59, "Write x.x1 or y.x1.")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "SELECT 1 AS a FROM (SELECT a FROM x) p, (SELECT a FROM x) q "
            "WHERE EXISTS (SELECT 1 FROM (SELECT y1 FROM y) r WHERE y1 = a)",
            "Write p.a or q.a.",
        ),
        (
            "SELECT x1 FROM (SELECT x1 FROM x) "
            "WHERE EXISTS (SELECT 1 FROM (SELECT y1 FROM y) r WHERE y1 = x1)",
            "Name the outer query: FROM (SELECT ...) AS x, and write x.x1.",
        ),
    ],
)
def test_a_name_that_cannot_be_written_with_its_input_is_refused(text: str, hint: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text)
    assert caught.value.hint == hint
    assert caught.value.line == 1


def test_columns_that_change_nothing_leave_the_statement() -> None:
    statement = parse("SELECT x1 FROM x")
    assert declare(statement, {"x": ("x1",)}) is statement


JOB = "CREATE JOB j EVERY '10 s' AS SELECT count(*) AS n FROM x WHERE "


@pytest.mark.parametrize(
    ("condition", "column", "hint"),
    [
        ("(SELECT count(*) FROM y WHERE y1 = x1) = 1", 94, "Write x.y1 or y.y1."),
        ("EXISTS (SELECT 1 FROM y WHERE y.a = x.a AND b > 3)", 108, "Write x.b or y.b."),
        ("(SELECT count(*) FROM y WHERE x1 = 5) = 1", 94, "Write x.x1 or y.x1."),
        ("a IN (SELECT a FROM y WHERE b > 3 AND c = 'x')", 92, "Write x.b or y.b."),
        ("a NOT IN (SELECT k FROM y WHERE upper(m) = x1)", 102, "Write x.m or y.m."),
    ],
)
def test_a_new_job_has_no_name_that_may_be_of_the_row_outside(condition: str, column: int, hint: str) -> None:
    with pytest.raises(QueryError, match="may be a field of y or of a row outside") as caught:
        read_job(JOB + condition)
    assert (caught.value.line, caught.value.column, caught.value.hint) == (1, column, hint)
    assert read_plan(JOB + condition).size_us  # a job that runs already goes on


@pytest.mark.parametrize(
    "condition",
    [
        "EXISTS (SELECT 1 FROM y WHERE y.a = x.a AND y.b > 3)",
        "a IN (SELECT a FROM y WHERE y.b > 3 AND y.c = 'x')",
        "a = (SELECT max(a) FROM x WHERE b > 3)",
        "a IN (SELECT k FROM (SELECT k, v FROM y) z WHERE v = a)",
        "a IN (SELECT k FROM y WHERE ts > _host)",
    ],
)
def test_a_new_job_has_names_that_can_mean_one_thing(condition: str) -> None:
    read_job(JOB + condition)


@pytest.mark.parametrize(("kind", "found"), [("LEFT SEMI", [1, 3]), ("LEFT ANTI", [2])])
def test_no_bare_name_and_no_star_means_a_column_behind_a_semi_join(
    kind: str, found: list[int], tmp_path: Path
) -> None:
    y = "(SELECT y1 AS x1 FROM y) y"
    assert rows(f"SELECT x1 FROM x {kind} JOIN {y} ON x.x1 = y.x1", tmp_path) == found
    x = "(SELECT x1 FROM x) x"
    assert rows(f"SELECT * FROM {x} {kind} JOIN {y} USING (x1)", tmp_path) == found
