"""Intervals of `elf run` whose groups span several: where each ends, and what the end of the input does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from elfmesh import ql
from elfmesh.local.embedded import answers
from elfmesh.local.run_groups import shown

JOB = """CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS hits FROM s
GROUP BY SEALED(k WHEN e = 'end' PRODUCERS {} AFTER '{}')"""


def lines(*records: tuple[float, str, str]) -> str:
    return "".join(f'{{"ts":{ts:.3f},"k":"{k}","e":"{e}"}}\n' for ts, k, e in records)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "s.jsonl"


def ran(log: Path, how: str = "ONE", after: str = "10 s") -> Iterator[tuple[int, str, float, list[object]]]:
    found = answers(JOB.format(how, after), str(log))
    first = found[0].record.index
    for each in found:
        record = each.record
        rows = [(row["k"], row["hits"]) for row in each.table.to_pylist()]
        if rows:
            yield record.index - first, record.state, record.completeness, list(rows)


def test_the_end_of_the_input_ends_all_partitions_and_marks_unsealed_ones_as_partial(log: Path) -> None:
    log.write_text(lines((0.1, "a", ""), (0.2, "b", ""), (2.5, "a", "end"), (2.6, "c", "")))
    assert list(ran(log)) == [
        (2, "FINAL", 1.0, [("a", 1)]),
        (3, "FINAL_PARTIAL", 0.0, [("b", 1), ("c", 1)]),
    ]


def test_a_partition_ends_in_an_interval_without_records_where_its_duration_has_passed(log: Path) -> None:
    log.write_text(lines((0.1, "a", ""), (2.0, "b", ""), (400.0, "c", ""), (400.1, "c", "end")))
    assert [(at, rows) for at, _, _, rows in ran(log)] == [
        (10, [("a", 1)]),
        (11, [("b", 1)]),
        (400, [("c", 1)]),
    ]


def test_the_process_is_the_only_member(log: Path) -> None:
    log.write_text(lines((0.1, "a", ""), (2.5, "a", "end"), (9.0, "b", "")))
    assert next(ran(log, "ALL")) == (2, "FINAL", 1.0, [("a", 1)])
    partial = [(5, "FINAL_PARTIAL", 0.5), (10, "FINAL_PARTIAL", 0.0)]
    assert [each[:3] for each in ran(log, "2", "3 s")] == partial


def test_records_of_an_ended_partition_are_counted_as_late(log: Path) -> None:
    log.write_text(lines((0.1, "a", ""), (0.5, "a", "end"), (1.5, "a", ""), (1.6, "b", "")))
    found = answers(JOB.format("ONE", "10 s"), str(log))
    counts = [(each.record.counts["contributed"], each.record.counts["late_dropped"]) for each in found[:2]]
    assert counts == [(2, 0), (1, 1)]


def test_without_records_nothing_is_shown() -> None:
    assert list(shown(ql.parse(JOB.format("ONE", "1 s")), [])) == []
