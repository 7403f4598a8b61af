"""The oracle of rows that span intervals, on lines written by hand."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from elfmesh.control.jobs.plan import read_plan
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.drawing.wide import spanning
from tests.sim.swarm.judging.invariants import ALL
from tests.sim.swarm.judging.spanning import WALKS, Counts, Pairs, Row, Sessions
from tests.sim.swarm.workload import Written
from tests.sim.test_swarm_invariants import JOB, KEY, clean, swap_final

S = 1_000_000


def line(number: int, at_us: int, key: str = "a") -> Written:
    return Written(number, 1, number, at_us, key, 1, 1.0, "good", False)


def job(kind: str, **fields: Any) -> Job:
    """A job with intervals of 1 s."""
    return replace(JOB, slide_s=1, size_s=1, spans=kind, **fields)


def window(key: str, first_us: int, last_us: int, *numbers: int) -> Row:
    return (key, first_us, last_us, len(numbers), sum(numbers))


def test_a_session_goes_on_over_intervals_and_ends_after_the_gap() -> None:
    walk = Sessions(job("SESSION"))
    assert walk.read(0, S, 1.0, [line(1, 900_000), line(2, 100_000, "b")]) == ([], 1.0)
    assert walk.is_due
    assert walk.read(S, 2 * S, 1.0, [line(3, 1_900_000)]) == ([window("b", 100_000, 1_100_000, 2)], 1.0)
    assert walk.read(2 * S, 3 * S, 1.0, []) == ([window("a", 900_000, 2_900_000, 1, 3)], 1.0)
    assert not walk.is_due


def test_a_session_has_the_least_completeness_of_its_intervals_and_of_the_one_before() -> None:
    walk = Sessions(job("SESSION"))
    walk.read(0, S, 0.5, [])
    walk.read(S, 2 * S, 1.0, [line(1, S)])
    assert walk.read(2 * S, 3 * S, 1.0, [])[1] == 0.5, "it may have begun in the interval before"
    walk.read(3 * S, 4 * S, 1.0, [line(2, 3 * S)])
    walk.skip(5 * S)
    assert walk.read(5 * S, 6 * S, 1.0, [])[1] == 0.0


def test_windows_of_lines_are_full_in_the_interval_of_their_last_one() -> None:
    walk = Counts(job("ROWS", rows=3, step=2))
    assert walk.read(0, S, 1.0, [line(2, 10), line(1, 10), line(9, 5, "b")]) == ([], 1.0)
    rows, share = walk.read(S, 2 * S, 0.5, [line(3, S), line(4, S + 1), line(5, S + 2)])
    assert rows == [window("a", 10, S, 1, 2, 3), window("a", S, S + 2, 3, 4, 5)]
    assert share == 0.5
    assert walk.read(2 * S, 3 * S, 1.0, [line(6, 2 * S)]) == ([], 0.5), "all later windows may have moved"
    walk.skip(4 * S)
    assert walk.read(4 * S, 5 * S, 1.0, [line(7, 4 * S), line(8, 4 * S)]) == ([], 0.0)


def test_pairs_are_rows_of_the_interval_of_their_later_line() -> None:
    walk = Pairs(job("WITHIN", within_s=1))
    assert walk.read(0, S, 0.5, [line(5, 0), line(4, 400_000), line(6, 900_000, "b")]) == ([(4, 5)], 0.5)
    assert walk.read(S, 2 * S, 1.0, [line(3, 1_399_999), line(7, 1_400_000)])[0] == [(3, 4), (3, 7)]
    assert walk.read(2 * S, 3 * S, 1.0, [line(8, 2_100_000)]) == ([(3, 8), (7, 8)], 1.0)


@pytest.mark.parametrize("kind", WALKS)
def test_each_kind_is_drawn_with_a_text_that_is_accepted(kind: str) -> None:
    drawn = spanning(JOB, kind, Random(1))
    assert read_plan(drawn.text).spans == kind
    assert drawn.keeps_state


def records_hold(rows: list[Row], **fields: Any) -> bool:
    """Whether a run holds in which two hosts write a line at 5 s, and another at 6 s, with these sessions."""
    out = clean()
    hosts = out.truths[KEY].hosts.values()
    assert [each.key for host in hosts for each in host.lines] == ["a"] * 4
    out.truths[KEY] = replace(out.truths[KEY], job=job("SESSION", lateness_s=0))
    for index in (5, 6):
        swap_final(out, index, start_us=index * S, end_us=(index + 1) * S)
    swap_final(out, 6, **fields)
    names = Sessions.columns
    columns = {name: pa.array([row[at] for row in rows]) for at, name in enumerate(names)}
    for name in ("window_start", "window_end"):
        columns[name] = columns[name].cast(pa.timestamp("us", "UTC"))
    table = pa.table(columns)
    out.final[KEY] = {
        5: (out.final[KEY][5][0], b""),
        6: (out.final[KEY][6][0], table_to_ipc(table) if rows else b""),
    }
    return not [*ALL["I5 spanning"](out)]


def test_a_record_has_the_rows_and_the_completeness_of_its_interval() -> None:
    assert records_hold([]), "all lines are in one session, which is open"
    assert not records_hold([window("a", 5 * S, 6 * S, 101, 201)])
    assert not records_hold([], completeness=0.5)


def test_times_are_compared_whatever_zeros_they_end_with() -> None:
    out = clean()
    out.truths[KEY] = replace(out.truths[KEY], job=job("ROWS", rows=2, step=2, ids=False))
    for index, first_us in ((5, 5 * S), (6, 6 * S)):
        swap_final(out, index, start_us=index * S, end_us=(index + 1) * S)
        bounds = pa.array([first_us]).cast(pa.timestamp("us", "UTC"))
        numbers = (101, 201) if index == 5 else (102, 202)
        row = {"k": ["a"], "window_start": bounds, "window_end": bounds, "n": [2], "s": [sum(numbers)]}
        out.final[KEY][index] = (out.final[KEY][index][0], table_to_ipc(pa.table(row)))
    assert not [*ALL["I5 spanning"](out)]
