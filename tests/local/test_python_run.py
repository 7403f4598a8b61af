"""`elfmesh.run`: every kind of input gives the rows of the same records in a file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import elfmesh
from elfmesh.errors import QueryError, UsageError

RECORDS = [
    {"ts": f"2015-05-17T10:00:{second:02}Z", "k": "ab"[second % 2], "v": second, "w": {"x": second / 2}}
    for second in range(7)
]
TEXT = "".join(json.dumps(record) + "\n" for record in RECORDS)
WINDOWS = (
    "SELECT k, sum(v) AS v, max(w.x) AS x FROM log GROUP BY TUMBLE(ts, INTERVAL '3' SECOND), k ORDER BY k"
)
PLAIN = "SELECT k, v FROM log WHERE w.x > 1"


def typed() -> pa.Table:
    rows = [{**record, "ts": datetime.fromisoformat(str(record["ts"]))} for record in RECORDS]
    return pa.Table.from_pylist(rows)


class Frame:
    """A data frame of another library."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return typed().__arrow_c_stream__(requested_schema)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "x.ndjson"
    path.write_text(TEXT)
    return path


@pytest.mark.parametrize(
    "query", [WINDOWS, PLAIN, "SELECT * FROM log LIMIT 3", "SELECT count(*) AS n FROM log"]
)
@pytest.mark.parametrize(
    "given",
    [
        lambda path: [path],
        str,
        lambda path: (path, "json"),
        lambda path: io.BytesIO(path.read_bytes()),
        lambda path: io.StringIO(path.read_text()),
        lambda path: path.open("rb"),
        lambda path: typed(),
        lambda path: typed().to_batches()[0],
        lambda path: typed().to_reader(),
        lambda path: typed().to_pandas(),
        lambda path: Frame(),
    ],
)
def test_all_inputs_give_the_same_rows(log: Path, query: str, given: Callable[[Path], Any]) -> None:
    value = given(log)
    expected = [table.to_pylist() for table in elfmesh.run(query, log)]
    found = [table.to_pylist() for table in elfmesh.run(query, value)]
    # a JSON file has times as text, and a table as times
    assert [[{key: row[key] for key in row if key != "ts"} for row in rows] for rows in found] == [
        [{key: row[key] for key in row if key != "ts"} for row in rows] for rows in expected
    ]
    if hasattr(value, "close"):
        value.close()


def test_streams_are_named_and_joined(log: Path) -> None:
    names = pd.DataFrame(
        {"k": ["a", "b"], "ts": [datetime(2015, 5, 17, 10, tzinfo=UTC)] * 2, "name": ["A", "B"]}
    )
    query = (
        "SELECT n.name, count(*) AS n FROM log l JOIN names n ON l.k = n.k GROUP BY n.name ORDER BY n.name"
    )
    (table,) = elfmesh.run(query, streams={"log": (log, "json"), "names": names})
    assert table.to_pylist() == [{"name": "A", "n": 4}, {"name": "B", "n": 3}]


def test_a_name_is_a_column_of_the_only_table_that_has_it() -> None:
    left, right = pa.table({"k": [1, 2], "a": [5, 6]}), pa.table({"k": [2, 3], "b": [7, 8]})
    query = "SELECT a + b AS x, x * 2 AS y FROM l JOIN r ON l.k = r.k WHERE b < 8"
    (table,) = elfmesh.run(query, streams={"l": left, "r": right})
    assert table.to_pylist() == [{"x": 13, "y": 26}]
    with pytest.raises(QueryError, match="a may be a column of several inputs"):
        elfmesh.run(query, streams={"l": left, "r": right.append_column("a", [[1, 1]])})


def test_lookups_are_files_or_tables(log: Path, tmp_path: Path) -> None:
    (tmp_path / "names.csv").write_text("k,name\na,A\nb,B\n")
    joined = "log JOIN lookup.names n ON log.k = n.k"
    query = f"SELECT n.name, count(*) AS c FROM {joined} GROUP BY n.name ORDER BY c DESC"
    for names in (tmp_path / "names.csv", pa.table({"k": ["a", "b"], "name": ["A", "B"]})):
        (table,) = elfmesh.run(query, log, lookups={"names": names})
        assert table.to_pylist() == [{"name": "A", "c": 4}, {"name": "B", "c": 3}]


def test_the_options_are_those_of_elf_run(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("a 1\n  more\nb 2\n")
    query = "SELECT k, v FROM log"
    options: dict[str, Any] = {
        "multiline": "indent",
        "patterns": {"KEY": "[a-z]"},
        "memory": "8 MB",
        "threads": 1,
    }
    (table,) = elfmesh.run(query, path, r"grok:%{KEY:k} %{INT:v}(?s:.*)", sample=1, **options)
    assert [row["k"] for row in table.to_pylist()] == ["a"]
    assert sum(each.num_rows for each in elfmesh.run("SELECT v FROM log", typed(), sample=2)) == 2


def test_python_functions_need_the_option(log: Path) -> None:
    query = (
        "WITH FUNCTION twice(v BIGINT) RETURNS BIGINT LANGUAGE PYTHON AS $$\n"
        "def twice(v):\n    return 2 * v\n$$"
        " SELECT sum(twice(v)) AS v FROM log"
    )
    with pytest.raises(UsageError, match="Python functions, which are disabled"):
        elfmesh.run(query, log)
    assert elfmesh.run(query, log, python=True)[0].to_pylist() == [{"v": 42}]


@pytest.mark.parametrize(
    ("arguments", "options", "error", "reported"),
    [
        ((PLAIN,), {}, UsageError, "log has no input"),
        ((PLAIN, 7), {}, UsageError, "log has no input: int"),
        ((PLAIN, [7]), {}, UsageError, "log has no input: list"),
        ((PLAIN, "x"), {"streams": {"log": "x"}}, UsageError, "exclude each other"),
        ((PLAIN,), {"streams": {"other": typed()}}, UsageError, "the query reads log, and streams has other"),
        (("SELECT a.v FROM a JOIN b ON a.v = b.v", typed()), {}, UsageError, "several streams"),
        (("SELECT vv FROM log", typed()), {}, QueryError, "log has no column vv"),
        (
            (PLAIN.replace("log", "a"),),
            {"streams": {"a": io.BytesIO(), "b": io.BytesIO()}},
            UsageError,
            "one file",
        ),
    ],
)
def test_wrong_arguments(
    arguments: tuple[Any, ...], options: dict[str, Any], error: type[Exception], reported: str
) -> None:
    with pytest.raises(error, match=reported):
        elfmesh.run(*arguments, **options)


def test_results_are_tables_with_intervals(log: Path) -> None:
    results = elfmesh.run(WINDOWS, log)
    assert isinstance(results, list)
    assert all(type(each) is pa.Table for each in results)
    first = results.intervals[0]
    assert (first.start, first.state, first.completeness) == (
        datetime(2015, 5, 17, 10, tzinfo=UTC),
        "FINAL",
        1.0,
    )
    assert first.rows == results[0].to_pylist()
    assert first.to_arrow().equals(results[0])
    frame = results.to_pandas()
    assert list(frame.columns) == ["interval_start", "interval_end", "k", "v", "x"]
    assert frame["v"].sum() == 21
    assert elfmesh.run("SELECT sum(v) AS v FROM log", log).to_arrow().to_pylist() == [{"v": 21}]
    assert "<th>interval_start</th>" in results._repr_html_()
