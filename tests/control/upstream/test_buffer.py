"""From the intervals of the job that is read to those of the one that reads, against a plain account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.upstream import buffer as under_test
from elfmesh.control.upstream.buffer import NOTHING, Quality, Read, UpstreamPiece, combined, next_step
from elfmesh.ql.plan.fidelity_shape import FidelityShape
from elfmesh.ql.values.plain_ipc import table_to_ipc

ROWS, NO_ROWS = table_to_ipc(pa.table({"n": [1]})), table_to_ipc(pa.table({"n": pa.array([], pa.int64())}))


@dataclass(frozen=True)
class Log:
    """A log of one job: what its records are, and where they end."""

    slide: int
    records: tuple[tuple[ResultRecord, bytes], ...]
    closed: int


@st.composite
def logs(draw: st.DrawFn) -> Log:
    slide = draw(st.sampled_from([1, 2, 3, 5]))
    at, records = draw(st.integers(-3, 8)), []
    for _ in range(draw(st.integers(0, 7))):
        kind = draw(st.sampled_from(["rows", "empty", "partial", "run", "skipped", "nothing"]))
        length = draw(st.integers(1, 4)) if kind in ("run", "nothing") else 1
        at += length
        if kind == "nothing":
            continue
        fields: dict[str, Any] = {}
        if kind in ("partial", "run", "skipped"):
            fields = {
                "state": "SKIPPED" if kind == "skipped" else "FINAL_PARTIAL",
                "completeness": draw(st.sampled_from([0.25, 0.5])),
                "missing": [draw(st.sampled_from("ab"))],
                "agents_expected": 4,
                "since": at - length if kind == "run" and length > 1 else None,
            }
        rows = NO_ROWS if kind in ("empty", "skipped") else draw(st.sampled_from([ROWS, b""]))
        records.append((ResultRecord(job="a/b", index=at - 1, **fields), rows))
    return Log(slide, tuple(records), at + draw(st.integers(0, 6)))


def account(log: Log, start: int, end: int) -> tuple[list[int], bool, float, set[str]]:
    """Rows of [start, end), whether all of it is complete, how complete, and who is missing."""
    rows, final, completeness, missing = [], True, 1.0, set()
    for record, payload in log.records:
        first, at = record.first * log.slide, record.index * log.slide
        if start <= at < end and payload == ROWS and record.state != "SKIPPED":
            rows.append(at)
        if first < end and at >= start and record.state != "FINAL":
            final = False
            completeness = min(completeness, 0.0 if record.state == "SKIPPED" else record.completeness)
            missing |= set(record.missing)
    return rows, final, completeness, missing


@settings(deadline=None, max_examples=300)
@given(st.lists(logs(), min_size=1, max_size=3), st.integers(1, 6), st.integers(1, 3), st.data())
def test_every_window_is_made_once_of_what_is_in_it(
    given_logs: list[Log], slide: int, times: int, data: st.DataObject
) -> None:
    size = slide * times - data.draw(st.integers(0, slide - 1)) if times > 1 else slide
    start = data.draw(st.sampled_from([FIRST, -20, 2]))
    reads = [Read(f"shop/{number}", (bytes([number]) * 20,)) for number in range(len(given_logs))]
    following, made = start, {}
    if start != FIRST:
        for read in reads:
            read.until_us = start * slide
    todo = [
        (read, log, cut)
        for read, log in zip(reads, given_logs, strict=True)
        for cut in range(len(log.records) + 1)
    ]
    order = data.draw(st.permutations(range(len(todo))))
    position = dict.fromkeys(range(len(reads)), 0)
    for turn in order:
        read, log, _ = todo[turn]
        number = reads.index(read)
        cut = position[number]
        position[number] += 1
        read.take(log.records[max(0, cut - 1) : cut + 1], log.slide)  # some come twice
        if cut == len(log.records):
            read.until_us = max(log.closed * log.slide, read.until_us or FIRST)
        while (found := next_step(reads, following, size, slide)) is not None:
            assert found.index >= following if found.pieces is not None else found.index > following
            if found.pieces is None:
                following = found.index
            else:
                low = found.index if found.since is None else found.since
                assert low >= following
                for window in range(low, found.index + 1):
                    made[window] = (found.pieces, found.index)
                following = found.index + 1
            for each in reads:
                each.drop_before(following * slide)
    if any(read.until_us is None for read in reads):
        return
    ready = min(read.until_us for read in reads if read.until_us is not None)
    first = max(
        start, min([0, *(record.first * log.slide for log in given_logs for record, _ in log.records)]) - 9
    )
    for window in range(first, (ready - size) // slide + 1):
        low, high = window * slide, window * slide + size
        accounts = [account(log, low, high) for log in given_logs]
        pieces, index = made.get(window, ((), window))
        wanted = sorted(at for rows, *_ in accounts for at in rows)
        mine = sorted(piece.at_us for piece in pieces if piece.rows and low <= piece.at_us < high)
        assert mine == wanted, window
        assert not wanted or index == window, "a run has no rows"
        state, quality = combined(pieces)
        assert (state == "FINAL") == all(final for _, final, *_ in accounts)
        assert quality.completeness == min(completeness for *_, completeness, _ in accounts)
        assert set(quality.missing) == set().union(*(missing for *_, missing in accounts))
    assert all(window <= (ready - size) // slide for window in made), "nothing is made too early"


def of(name: str, fidelity: float, contributed: int | None) -> UpstreamPiece:
    quality = Quality(completeness=fidelity, fidelity=fidelity, final=fidelity == 1, contributed=contributed)
    return UpstreamPiece(name, 0, 0, quality, b"")


JOIN = FidelityShape("join", sources=(FidelityShape("input", 0), FidelityShape("input", 1)))
UNION = FidelityShape("union", sources=JOIN.sources)
SOURCES = ("shop/a", "shop/b")


@pytest.mark.parametrize(
    ("pieces", "shape", "fidelity"),
    [
        ([of("shop/a", 1.0, 90), of("shop/a", 0.5, 10)], None, 0.95),
        ([of("shop/a", 1.0, None), of("shop/a", 0.5, None)], None, 0.75),
        ([of("shop/a", 1.0, 30), of("shop/a", 0.0, None)], None, 0.5),  # skipped: as many as usual
        ([of("shop/a", 1.0, 0), of("shop/a", 0.5, 0)], None, 0.75),
        ([of("shop/a", 0.5, 10), of("shop/b", 0.8, 30)], JOIN, 0.4),
        ([of("shop/a", 0.5, 10), of("shop/b", 0.8, 30)], UNION, 0.725),
        ([of("shop/a", 0.5, 10), of("shop/b", 0.8, None)], UNION, 0.65),  # a job that reads jobs
        ([of("shop/a", 0.5, 10)], JOIN, 0.5),
        ([], JOIN, 1.0),
    ],
)
def test_fidelity_is_the_mean_over_a_job_and_combined_over_jobs(
    pieces: list[UpstreamPiece], shape: FidelityShape | None, fidelity: float
) -> None:
    _, quality = combined(pieces, SOURCES, shape)
    assert quality.fidelity == pytest.approx(fidelity)
    assert quality.completeness == min((each.quality.completeness for each in pieces), default=1.0)


def test_what_is_not_kept_any_more_is_declared() -> None:
    read = Read("shop/top", (b"",))
    read.until_us = 100
    read.lost(150)
    read.take([(ResultRecord(job="shop/top", index=15), ROWS)], 10)
    read.until_us = 200
    found = next_step([read], 10, 10, 10)
    assert found is not None
    assert (found.since, found.index, combined(found.pieces or ())) == (10, 13, ("FINAL_PARTIAL", NOTHING))
    read.drop_before(140)
    assert [(step.since, step.index) for step in [next_step([read], 14, 10, 10)] if step] == [(None, 14)]


def test_a_reader_that_has_read_nothing_lacks_nothing() -> None:
    read = Read("shop/top", (b"",))
    read.lost(150)
    assert (read.until_us, len(read.pieces)) == (None, 0)


def test_rows_that_there_was_no_room_for_are_not_taken_for_none() -> None:
    read = Read("shop/top", (b"",))
    read.take([(ResultRecord(job="shop/top", index=1), ROWS)], 10)
    assert read.nbytes == len(ROWS)
    read.overflow()
    assert (read.nbytes, [piece.rows for piece in read.pieces]) == (0, [None])


def test_a_run_ends_where_another_job_has_something() -> None:
    run = ResultRecord(
        job="shop/top", index=9, since=2, state="FINAL_PARTIAL", completeness=0.5, missing=["a"]
    )
    reads = [Read("shop/top", (b"",)), Read("shop/other", (b"",))]
    reads[0].take([(run, ROWS)], 1)
    reads[1].take([(ResultRecord(job="shop/other", index=6), ROWS)], 1)
    for read in reads:
        read.until_us = 20
    found, following = [], FIRST
    while (step := next_step(reads, following, 1, 1)) is not None and step.pieces is not None:
        found.append((step.since, step.index, len(step.pieces)))
        following = step.index + 1
        for read in reads:
            read.drop_before(following)
    assert found == [(2, 5, 1), (None, 6, 2), (7, 8, 1), (None, 9, 1)]


def test_an_interval_is_clean_only_if_every_record_that_it_reads_is() -> None:
    clean = under_test._piece("a/b", ResultRecord(job="a/b", index=1), b"", 1)
    late = under_test._piece("a/b", ResultRecord(job="a/b", index=2, counts={"late_dropped": 1}), b"", 1)
    read_unclean = under_test._piece("a/b", ResultRecord(job="a/b", index=3, clean=False), b"", 1)
    assert under_test.combined([clean])[1].clean
    for other in (late, read_unclean):
        state, quality = under_test.combined([clean, other])
        assert (state, quality.clean) == ("FINAL", False)
