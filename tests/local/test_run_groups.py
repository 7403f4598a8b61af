"""Intervals of `elf run` whose groups span several: where each ends, and what the end of the input does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.ingest.parsers import StreamFormat
from elfmesh.local.embedded import LogRun, answers
from elfmesh.local.run_groups import shown
from tests.ql.counting import full_windows, near_pairs
from tests.ql.sessions import SECOND, Record

JOB = """CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS hits FROM s
GROUP BY SEALED(k WHEN e = 'end' PRODUCERS {} AFTER '{}')"""


def lines(*records: tuple[float, str, str]) -> str:
    return "".join(f'{{"ts":{ts:.3f},"k":"{k}","e":"{e}"}}\n' for ts, k, e in records)


EARLY = """CREATE JOB a.b EVERY '1 s' {} ASSUME (k -> e) AS SELECT k, count(*) AS hits FROM s
GROUP BY SEALED(k WHEN e = 'end' PRODUCERS ONE RECORDS n AFTER '3 s')"""


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


def test_a_run_of_a_job_with_early_rows_has_the_rows_of_its_final_records(log: Path) -> None:
    log.write_text(
        lines((0.1, "a", ""), (0.2, "b", ""), (2.5, "a", "end"), (9.0, "c", "")).replace("}", ',"n":1}')
    )
    found, plain = (
        [(each.record.index, each.record.state, each.table.to_pylist()) for each in answers(text, str(log))]
        for text in (EARLY.format("EARLY '100 ms'"), EARLY.format(""))
    )
    assert found == plain
    windows = "CREATE JOB a.b EVERY '1 s' {} AS SELECT k, count(*) AS n FROM s GROUP BY k HAVING count(*) > 0"
    both = [answers(windows.format(early), str(log)) for early in ("EARLY '100 ms'", "")]
    assert [each.table.to_pylist() for each in both[0]] == [each.table.to_pylist() for each in both[1]]
    assert sum(each.table.num_rows for each in both[0]) == 4


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


COUNTED = """CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS n, sum(v) AS total FROM s
GROUP BY ROWS({}, {}), k"""


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from("ab"), st.integers(0, 3)), min_size=2, max_size=30
    ),
    st.integers(1, 4),
    st.integers(1, 5),
)
def test_a_run_over_several_files_counts_as_the_paper_does(
    tmp_path: Path, given: list[tuple[int, str, int]], size: int, step: int
) -> None:
    records: list[Record] = sorted((at * SECOND // 10, k, v) for at, k, v in given)
    paths = [str(tmp_path / f"{number}.jsonl") for number in range(2)]
    for number in range(2):  # elf run reads the records of each file in the order of their times
        text = (f'{{"ts":{at / SECOND:.3f},"k":"{k}","v":{v}}}\n' for at, k, v in records[number::2])
        Path(paths[number]).write_text("".join(text))
    wanted = sorted(
        (at, key, len(window), sum(value or 0 for _, _, value in window))
        for at, key, window in full_windows(records, size, step, SECOND)
    )
    found = answers(COUNTED.format(size, step), paths)
    rows = [(each.record.index, *row.values()) for each in found for row in each.table.to_pylist()]
    assert sorted(rows) == wanted
    plain = COUNTED.format(size, step).partition(" AS ")[2]
    whole = answers(plain, paths)[-1]
    rows = [tuple(row.values()) for row in whole.table.to_pylist()]
    assert sorted(rows) == sorted(each[1:] for each in wanted), "without EVERY, all records are one interval"


def test_the_end_of_the_input_ends_no_window_that_is_not_full(log: Path) -> None:
    log.write_text(lines((0.1, "a", ""), (0.2, "a", ""), (0.3, "a", "")))
    found = answers("SELECT k, count(*) AS n FROM s GROUP BY ROWS(2), k", str(log))
    assert [each.table.to_pylist() for each in found] == [[{"k": "a", "n": 2}]]


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=20
    ),
    st.lists(
        st.tuples(st.integers(0, 50), st.sampled_from("ab"), st.integers(0, 3)), min_size=1, max_size=20
    ),
    st.sampled_from(["", "LEFT"]),
    st.sampled_from([1, 10, 25]),
)
def test_a_run_joins_as_the_paper_does(
    tmp_path: Path,
    left: list[tuple[int, str, int]],
    right: list[tuple[int, str, int]],
    kind: str,
    tenths: int,
) -> None:
    streams = {}
    for name, side in (("l", left), ("r", right)):
        records: list[Record] = sorted((at * SECOND // 10, k, v) for at, k, v in side)
        made = (f'{{"ts":{at / SECOND:.3f},"k":"{k}","v":{v}}}\n' for at, k, v in records)
        (tmp_path / name).write_text("".join(made))
        streams[name] = records
    select = f"""SELECT l.v AS v, r.v AS w FROM l {kind} JOIN r ON l.k = r.k WITHIN '{tenths}00 ms'"""
    pairs = near_pairs(streams["l"], streams["r"], tenths * SECOND // 10, SECOND, kind)
    wanted = sorted((at, one[2], -1 if two is None else two[2]) for at, one, two in pairs)
    for text, numbered in ((f"CREATE JOB a.b EVERY '1 s' AS {select}", True), (select, False)):
        inputs = {name: ([str(tmp_path / name)], StreamFormat("json")) for name in streams}
        found = LogRun(ql.parse(text), [], streams=inputs).answers()
        rows = [
            (each.record.index, row["v"], -1 if row["w"] is None else row["w"])
            for each in found
            for row in each.table.to_pylist()
        ]
        assert sorted(row if numbered else row[1:] for row in rows) == sorted(
            row if numbered else row[1:] for row in wanted
        )
