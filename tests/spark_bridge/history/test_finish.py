"""The last step on Spark: parts of each interval become its answer, and errors of tasks become rows."""

from __future__ import annotations

import random
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.errors import DataError, QueryError
from elfmesh.local.python_run import run
from elfmesh.ql import parse
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.spark_bridge.history.finish import answer, finish
from elfmesh.spark_bridge.history.inputs import given_inputs, pieces_of
from elfmesh.spark_bridge.history.plan import CONTRIBUTION, Task, pack_error, unpack_error
from elfmesh.spark_bridge.history.share import contribute
from elfmesh.spark_bridge.history.sql import refuse_members

Rows = list[dict[str, Any]]
TEXT = "SELECT k, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k ORDER BY k"


def contributions(path: Path, *logs: str, query: str = TEXT) -> tuple[Task, Rows]:
    """What the tasks of some logs give, by interval as Spark sorts it."""
    task, rows = Task(query, 0, "query", "here"), list[dict[str, Any]]()
    for number, text in enumerate(logs):
        log = path / f"{number}.ndjson"
        log.write_text(text)
        inputs = given_inputs({"log": (str(log), "json")})
        pieces = [*chain.from_iterable(pieces_of(each, "here", 1000) for each in inputs.values())]
        task = Task(query, 0, "query", "here", inputs=inputs)
        for batch in contribute(task, pieces, number=number):
            rows += batch.to_pylist()
    return task, sorted(rows, key=lambda row: row["interval_index"])


def finished(task: Task, rows: Rows) -> Rows:
    found = finish(task, [pa.RecordBatch.from_pylist([row], CONTRIBUTION) for row in rows])
    return [row for batch in found for row in batch.to_pylist()]


def line(at: int, k: str) -> str:
    return f'{{"ts": "1970-01-01T00:00:{at:02}Z", "k": "{k}"}}\n'


def test_parts_of_an_interval_are_one_answer_with_its_bounds_and_counts(tmp_path: Path) -> None:
    task, rows = contributions(tmp_path, line(1, "a") + line(12, "b"), line(2, "a") + line(3, "c"))
    found = finished(task, rows)
    assert [(row["interval_index"], row["start_us"], row["end_us"], row["rows"]) for row in found] == [
        (0, 0, 10_000_000, 2),
        (1, 10_000_000, 20_000_000, 1),
    ]
    tables = [ipc_to_table(row["table"]).to_pylist() for row in found]
    assert tables == [[{"k": "a", "n": 2}, {"k": "c", "n": 1}], [{"k": "b", "n": 1}]]
    assert [sum(row["counts"]) for row in found] == [3, 1]


SEALED = """CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS n FROM log
GROUP BY SEALED(k WHEN e PRODUCERS {} AFTER '9 s')"""


def test_partitions_of_any_cut_of_the_history_are_those_of_a_run(tmp_path: Path) -> None:
    seal = '{"ts": "1970-01-01T00:00:%02dZ", "k": "%s", "e": true, "p": "%s"}\n'
    lines = [line(at, k) for at in range(1, 9) for k in "abc"]
    lines += [seal % (at, k, p) for at, k, p in ((3, "a", "p"), (7, "a", "q"), (8, "b", "p"))]
    random.Random(7).shuffle(lines)
    query = SEALED.format("2 BY p")
    task, rows = contributions(tmp_path, "".join(lines[:9]), "".join(lines[9:]), query=query)
    found = [ipc_to_table(row["table"]).to_pylist() for row in finished(task, rows)]
    (whole := tmp_path / "whole.ndjson").write_text("".join(lines))
    assert found == [table.to_pylist() for table in run(query, str(whole))]
    assert next(each for each in found if each) == [{"k": "a", "n": 7}]


def test_early_rows_change_no_row_of_the_history(tmp_path: Path) -> None:
    early = (
        SEALED.format("ONE")
        .replace("AS SELECT", "EARLY '100 ms' AS SELECT")
        .replace("ONE", "ONE RECORDS total")
    )
    plain = early.replace("EARLY '100 ms' ", "")
    lines = "".join(line(at, k) for at in range(1, 9) for k in "abc")
    lines += '{"ts": "1970-01-01T00:00:05Z", "k": "a", "e": true, "total": 5}\n'
    rows = []
    for query in (early, plain):
        task, shares = contributions(tmp_path, lines, query=query)
        rows.append([ipc_to_table(row["table"]).to_pylist() for row in finished(task, shares)])
    assert rows[0] == rows[1]
    assert [{"k": "a", "n": 5}] in rows[0]


@pytest.mark.parametrize(("how", "refused"), [("ONE", False), ("2 BY p", False), ("2", True), ("ALL", True)])
def test_history_has_no_members_that_seal(how: str, refused: bool) -> None:
    statement = parse(SEALED.format(how))
    if not refused:
        refuse_members(statement)
        return
    with pytest.raises(QueryError, match="history does not contain which member") as problem:
        refuse_members(statement)
    assert (problem.value.line, "BY" in problem.value.hint) == (2, True)


def test_an_interval_that_is_not_wanted_is_left_out(tmp_path: Path) -> None:
    task, rows = contributions(tmp_path, line(1, "a") + line(12, "b") + line(25, "c"))
    only = Task(task.text, 0, "query", "here", inputs=task.inputs, only=(1, 1))
    assert [row["interval_index"] for row in finished(only, rows)] == [1]


def test_the_error_of_a_task_ends_the_answers_and_comes_back_as_it_was(tmp_path: Path) -> None:
    task, rows = contributions(tmp_path, line(1, "a") + line(12, "b"))
    error = DataError("a torn file", where="log.gz", hint="Copy it again.")
    failed = dict.fromkeys(CONTRIBUTION.names) | {"interval_index": 1, "error": pack_error(error)}
    found = finished(task, [rows[0], failed, *rows[1:]])
    assert [row["interval_index"] for row in found] == [0, 0]
    seen = unpack_error(found[-1]["error"])
    assert (type(seen), seen.message, seen.where, seen.hint) == (
        DataError, "a torn file", "log.gz", "Copy it again.",
    )  # fmt: skip


def test_parts_with_different_types_name_the_interval(tmp_path: Path) -> None:
    number = line(2, "x").replace('"x"', "7")
    task, rows = contributions(tmp_path, line(12, "a"), number.replace("02Z", "13Z"))
    (row,) = finished(task, rows)
    seen = unpack_error(row["error"])
    assert isinstance(seen, DataError)
    assert (seen.where, "different types" in seen.message) == ("interval 1", True)


@pytest.mark.parametrize("bounds", [None, (5, 7)])
def test_a_row_of_the_answer_has_bounds_only_with_a_window(bounds: tuple[int, int] | None) -> None:
    row = answer(3, 1, bounds, (1, 2), pa.table({"a": [1, 2, 3]}))
    assert (row["start_us"], row["end_us"]) == (bounds or (None, None))
    assert (row["interval_index"], row["number"], row["counts"], row["rows"]) == (3, 1, [1, 2], 3)
    assert pa.ipc.read_schema(pa.py_buffer(row["types"])).names == ["a"]


def test_each_task_checks_what_the_job_assumes_and_counts_travel_with_its_part(tmp_path: Path) -> None:
    text = (
        "CREATE JOB a.b EVERY '10 s' ASSUME (k -> v, v >= 0) AS SELECT k, count(*) AS n FROM log GROUP BY k"
    )

    def record(at: int, v: int) -> str:
        return line(at, "a").replace("}", f', "v": {v}}}')

    task, rows = contributions(
        tmp_path, record(1, 1) + record(2, -1) + record(12, 5), record(3, 7) + record(4, 8), query=text
    )
    assert [row["counts"][9:] for row in finished(task, rows)] == [[3], []]
