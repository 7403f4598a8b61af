from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from elfmesh.cbt import decode_partial, finish, merge_partials
from elfmesh.control.jobs.records import (
    BUCKETS,
    CONTRIBUTED,
    EXPIRED,
    FILTERED,
    FIRST,
    LATE,
    NOT_COUNTED,
    OVERFLOW,
    PARSE_ERROR,
)
from elfmesh.ingest.compute import PartialCompute
from elfmesh.ingest.parsers import Parsed, StreamFormat
from elfmesh.ingest.sources import Block, FilePosition, SourceState, StreamReader
from elfmesh.ingest.sources.parsing import parse_block
from elfmesh.ingest.worker.beginning import Resumed, SharedWorkerState
from elfmesh.ingest.worker.intervals import WorkerInterval
from elfmesh.ingest.worker.offsets import furthest
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.ql import parse

S = 1_000_000
NOW = 10_000 * S
TUMBLE = (
    "CREATE JOB j LATENESS '2 s' AS SELECT k, sum(v) s FROM t GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), k"
)
HOP = "SELECT k, count(*) n FROM t GROUP BY HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND), k"
FILE = FilePosition("log", 1, 1, b"g", 0, 0)
SOURCE = (1, 1)


class Feeder:
    """One file's records as blocks with true offsets."""

    def __init__(self, worker: JobWorker) -> None:
        self.worker = worker
        self.parser = StreamFormat("json").parser("log")
        self.offset = 0

    def feed(self, *records: tuple[int, str, int] | bytes, now: int = NOW) -> Block:
        lines = [
            record
            if isinstance(record, bytes)
            else json.dumps(dict(zip(("ts", "k", "v"), record, strict=True))).encode()
            for record in records
        ]
        data = b"".join(line + b"\n" for line in lines)
        block = Block(data, "log", FILE.at(self.offset), self.offset + len(data))
        self.offset = block.end
        self.worker.feed(parse_block(self.parser, block, self.worker.columns), block, now)
        return block

    def at_end(self, at_end: bool, now: int = NOW) -> int:
        return self.worker.observe([SourceState(SOURCE, at_end)], now)


def rows(worker: JobWorker, sealed: WorkerInterval) -> list[tuple[object, ...]]:
    payload = merge_partials(sealed.payloads)
    tables = finish(decode_partial(payload)) if payload else {}
    window = worker.statement.window
    bounds = (
        (sealed.index * window.slide_us, sealed.index * window.slide_us + window.size_us) if window else None
    )
    return [tuple(row.values()) for row in worker.query.finalise(tables, bounds).to_pylist()]


def answers(worker: JobWorker, upto: int) -> dict[int, list[tuple[object, ...]]]:
    return {sealed.index: rows(worker, sealed) for sealed in worker.seal(upto)}


def test_intervals_are_sealed_in_order_when_the_watermark_has_passed_them() -> None:
    worker = JobWorker(parse(TUMBLE))
    feeder = Feeder(worker)
    feeder.feed((25, "a", 3), (5, "a", 1), (5, "b", 2))
    feeder.at_end(False)
    assert worker.watermark_us == 23 * S
    assert worker.ready_index == 2
    assert answers(worker, worker.ready_index) == {0: [("a", 1), ("b", 2)]}
    assert worker.next_index == 2
    assert worker.seal(2) == []
    feeder.feed((41, "a", 1))
    feeder.at_end(False)
    assert answers(worker, worker.ready_index) == {2: [("a", 3)]}


def test_nothing_is_ready_before_the_first_record() -> None:
    worker = JobWorker(parse(TUMBLE))
    Feeder(worker).at_end(False)
    assert worker.ready_index == FIRST


def test_every_record_is_in_one_bucket() -> None:
    worker = JobWorker(parse(TUMBLE.replace("GROUP", "WHERE v > 0 GROUP")), start_index=1)
    feeder = Feeder(worker)
    future = (NOW // S + 7200, "a", 1)
    feeder.feed((12, "a", 1), (13, "a", 0), (5, "a", 1), b"garbage", b'{"k":"no time"}', future)
    (first,) = worker.seal(2)
    assert first.index == 1
    assert first.counts == (1, 1, 3, 0, 1, *NOT_COUNTED[5:])
    feeder.feed((13, "a", 1), (21, "a", 1), (3, "a", 1))
    (second,) = worker.seal(3)
    assert second.index == 2
    assert second.counts == (1, 0, 0, 1, 1, *NOT_COUNTED[5:])
    assert worker.totals == [2, 1, 3, 1, 2, *NOT_COUNTED[5:]]
    assert worker.problems.samples[0].startswith("log byte 86: JSON is malformed")
    assert worker.watermark_us < NOW


def test_errors_before_the_first_time_are_counted_in_the_first_interval_sealed() -> None:
    worker = JobWorker(parse(TUMBLE))
    feeder = Feeder(worker)
    feeder.feed(b"garbage")
    feeder.feed((12, "a", 1))
    (sealed,) = worker.seal(2)
    assert sealed.counts[PARSE_ERROR] == 1


def test_an_interval_with_counts_but_no_rows_has_empty_payloads() -> None:
    text = TUMBLE.replace("GROUP", "WHERE v > 5 GROUP").replace("LATENESS '2 s'", "PARTITIONS 3")
    worker = JobWorker(parse(text))
    Feeder(worker).feed((1, "a", 1))
    (sealed,) = worker.seal(1)
    assert sealed.counts[FILTERED] == 1
    assert sealed.payloads == (b"", b"", b"")


def test_partitions_together_are_the_whole() -> None:
    worker = JobWorker(parse(TUMBLE.replace("LATENESS '2 s'", "PARTITIONS 4")))
    Feeder(worker).feed(*((1, f"k{n}", n) for n in range(50)))
    (sealed,) = worker.seal(1)
    assert len(sealed.payloads) == 4
    assert rows(worker, sealed) == sorted((f"k{n}", n) for n in range(50))


def test_hopping_windows_count_a_record_in_each_and_as_late_in_each_it_missed() -> None:
    worker = JobWorker(parse(HOP))
    feeder = Feeder(worker)
    feeder.feed((7, "a", 1))
    (zero,) = worker.seal(1)
    assert (zero.index, zero.counts[CONTRIBUTED]) == (0, 1)
    feeder.feed((8, "a", 1), (2, "a", 1))
    one, two = worker.seal(2), worker.seal(3)
    assert rows(worker, one[0]) == [("a", 2)]
    assert one[0].counts == (2, 0, 0, 1 + 1, *NOT_COUNTED[4:])
    assert two == []
    assert worker.totals[LATE] == 2


def test_panes_whose_types_do_not_fit_cost_their_windows_and_not_the_job() -> None:
    worker = JobWorker(parse(HOP.replace("k, count(*) n", "max(v) m").replace(", k", "")))
    feeder = Feeder(worker)
    feeder.feed((2, "a", 1))
    feeder.parser = StreamFormat("json").parser("log")  # as if the stream said other types
    feeder.feed(b'{"ts": 7, "k": "a", "v": "text"}', b'{"ts": 8, "k": "a", "v": "more"}')
    feeder.feed(b'{"ts": 13, "k": "a", "v": "last"}')
    sealed = {each.index: each for each in worker.seal(3)}
    assert rows(worker, sealed[-1]) == [(1,)]
    assert sealed[0].payloads == (b"",)
    assert (sealed[0].counts[CONTRIBUTED], sealed[0].counts[PARSE_ERROR]) == (0, 3)
    assert rows(worker, sealed[1]) == [("text",)]
    assert any("interval 0" in sample for sample in worker.problems.samples)
    assert worker.totals[CONTRIBUTED] + worker.totals[PARSE_ERROR] == 4


def test_a_query_without_a_window_is_one_interval() -> None:
    worker = JobWorker(parse("SELECT k, sum(v) FROM t GROUP BY k"))
    Feeder(worker).feed((1, "a", 1), (99, "a", 2), b"x")
    assert worker.end_index == 1
    (sealed,) = worker.seal(worker.end_index)
    assert (sealed.index, sealed.counts) == (0, (2, 0, 1, *NOT_COUNTED[3:]))
    assert rows(worker, sealed) == [("a", 3)]


def test_restart_positions_are_where_the_open_panes_began() -> None:
    worker = JobWorker(parse(TUMBLE))
    feeder = Feeder(worker)
    feeder.feed((1, "a", 1))
    second = feeder.feed((12, "a", 1))
    third = feeder.feed((13, "a", 1), (2, "a", 1))
    assert [p.offset for p in worker.offsets.restart()] == [0]
    worker.seal(1)
    assert worker.offsets.restart() == (second.position,)
    assert [p.offset for p in worker.offsets.reached()] == [third.end]
    worker.seal(2)
    assert [p.offset for p in worker.offsets.restart()] == [third.end]


def test_a_file_that_is_gone_is_forgotten_once_nothing_open_came_from_it() -> None:
    worker = JobWorker(parse(TUMBLE))
    feeder = Feeder(worker)
    feeder.feed((1, "a", 1))
    worker.observe([], NOW)
    assert len(worker.offsets.restart()) == 1
    worker.seal(1)
    worker.observe([], NOW)
    assert worker.offsets.restart() == ()


def test_rows_whose_types_cannot_be_are_errors_at_an_agent_and_raise_in_a_run() -> None:
    for strict in (False, True):
        worker = JobWorker(parse("SELECT k, count(*) FROM t GROUP BY k"), strict=strict)
        block = Block(b"", "log")
        for values in (pa.array(["a"]), pa.array([True])):
            parsed = Parsed({"k": values}, rows=1, lines=1, errors=0, samples=[])
            if strict and values.type == pa.bool_():
                with pytest.raises(Exception, match="k0"):
                    worker.feed(parsed, block, NOW)
            else:
                worker.feed(parsed, block, NOW)
        if not strict:
            assert worker.totals[CONTRIBUTED] == 1
            assert worker.totals[PARSE_ERROR] == 1


records = st.tuples(st.integers(0, 60), st.sampled_from("abc"), st.integers(-5, 5))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(records, min_size=1, max_size=6), max_size=10), st.data())
def test_counts_conserve_every_record(blocks: list[list[tuple[int, str, int]]], data: st.DataObject) -> None:
    worker = JobWorker(parse(TUMBLE.replace("GROUP", "WHERE v >= 0 GROUP")), start_index=1)
    feeder = Feeder(worker)
    total: Counter[int] = Counter()
    for block in blocks:
        feeder.feed(*block)
        if data.draw(st.booleans()):
            for sealed in worker.seal(data.draw(st.integers(worker.next_index, 8))):
                total.update(dict(enumerate(sealed.counts)))
    for sealed in worker.seal(max(worker.end_index, worker.next_index)):
        total.update(dict(enumerate(sealed.counts)))
    assert sum(total.values()) == sum(map(len, blocks))
    assert [total[bucket] for bucket in range(len(BUCKETS))] == worker.totals
    assert total[EXPIRED] >= sum(ts < 10 for block in blocks for ts, _, _ in block)


@settings(max_examples=150, deadline=None)
@given(st.lists(records, min_size=1, max_size=40), st.sampled_from([TUMBLE, HOP]), st.integers(0, 10**6))
@example([(0, "a", 0)] * 7 + [(20, "a", 0)] * 5 + [(50, "a", 0)], HOP, 2073)
def test_a_restart_repeats_and_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[int, str, int]], text: str, seed: int
) -> None:
    dice = random.Random(seed)
    log: Path = tmp_path_factory.mktemp("restart") / "log"
    statement = parse(text)
    worker = JobWorker(statement)
    reader = StreamReader(str(log), StreamFormat("json"), block_bytes=90)
    reader.add("j", worker.columns)
    sealed: list[WorkerInterval] = []

    def framed() -> tuple[Resumed, tuple[FilePosition, ...], tuple[FilePosition, ...]]:
        """What a frame has for a restart: also how far boots before this one had read."""
        index, read = worker.next_index, worker.offsets.reached()
        known = furthest([*worker.offsets.read_up_to(), *((to, index) for to in read)])
        return Resumed(index, read_up_to=known), worker.offsets.restart(), read

    frame = framed()
    events = sorted(events)
    written = 0
    while written < len(events) or not reader.at_end("j"):
        more = events[written : written + dice.randint(1, 8)]
        written += len(more)
        with log.open("a") as file:
            file.writelines(json.dumps(dict(zip(("ts", "k", "v"), e, strict=True))) + "\n" for e in more)
        for delivery in reader.poll(dice.randint(1, 400)):
            worker.feed(delivery.parsed, delivery.block, NOW)
        worker.observe(reader.sources("j"), NOW)
        if dice.random() < 0.5:
            ready = max((worker.watermark_us // (10 * S)) - 1, worker.next_index)
            sealed += worker.seal(min(ready, worker.ready_index))
            frame = framed()
        if dice.random() < 0.25:
            resumed, positions, read = frame
            reader.close()
            worker = JobWorker(statement, resumed)
            reader = StreamReader(str(log), StreamFormat("json"), block_bytes=90)
            reader.add("j", worker.columns, positions=positions, boundaries=read)
    sealed += worker.seal(worker.end_index)
    reader.close()
    whole = JobWorker(statement)
    Feeder(whole).feed(*events)
    expected = whole.seal(whole.end_index)
    assert [(one.index, rows(worker, one)) for one in sealed] == [
        (one.index, rows(whole, one)) for one in expected
    ]
    assert [one.counts for one in sealed] == [one.counts for one in expected]


def test_a_late_record_is_counted_once_whether_or_not_the_worker_restarts_before_its_interval_is_sealed() -> (
    None
):
    def late(worker: JobWorker) -> int:
        return sum(sealed.counts[LATE] for sealed in worker.seal(worker.next_index + 1))

    worker = JobWorker(parse(TUMBLE), Resumed(2))
    feeder = Feeder(worker)
    blocks = [feeder.feed((35, "a", 1)), feeder.feed((5, "b", 1))]
    counted = late(worker)  # interval 2 is sealed; the newest record is in 3, which stays open
    read_up_to = (FILE.at(blocks[-1].end), worker.next_index)
    again = JobWorker(parse(TUMBLE), Resumed(worker.next_index, read_up_to=(read_up_to,)))
    repeated = Feeder(again)
    repeated.feed((35, "a", 1))
    repeated.feed((5, "b", 1))
    assert counted + late(again) == 1


def test_after_a_restart_no_block_reaches_across_what_the_frames_had_read_or_left_out() -> None:
    read, left_out = FILE.at(700), (FILE.at(100), 300)
    worker = JobWorker(parse(TUMBLE), Resumed(2, read_up_to=((read, 2),), shed=(left_out,)))
    assert {place.offset for place in worker.offsets.edges()} >= {100, 300, 700}


def test_what_was_read_and_open_when_an_agent_died_is_expired_if_it_was_closed_without_it() -> None:
    before = JobWorker(parse(TUMBLE), Resumed(2))
    block = Feeder(before).feed((15, "sealed", 1), (25, "open", 1), (45, "still open", 1))
    after = JobWorker(parse(TUMBLE), Resumed(2, read_up_to=((FILE.at(block.end), 2),)), start_index=4)
    Feeder(after).feed((15, "sealed", 1), (25, "open", 1), (45, "still open", 1))
    (sealed,) = after.seal(5)
    assert (sealed.counts[CONTRIBUTED], sealed.counts[EXPIRED], sealed.counts[LATE]) == (1, 1, 0)


def test_a_frame_made_while_a_restart_replays_does_not_forget_how_far_the_last_boot_had_read() -> None:
    again = JobWorker(parse(TUMBLE), Resumed(2, read_up_to=((FILE.at(700), 2),)))
    Feeder(again).feed((35, "a", 1))  # of the 700 bytes before the restart some were read again
    (reached,) = again.offsets.reached()
    assert reached.offset < 700
    assert again.offsets.read_up_to() == ((FILE.at(700), 2),), "a second restart would count the rest as late"


def test_an_interval_that_no_message_carries_is_given_up_and_counted() -> None:
    text = "CREATE JOB j AS SELECT count(DISTINCT k) AS d FROM t GROUP BY TUMBLE(ts, INTERVAL '10' SECOND)"
    worker = JobWorker(parse(text), around=SharedWorkerState(encode=PartialCompute().encode))
    feeder, rng = Feeder(worker), random.Random(3)
    feeder.feed((5, "small", 1))
    for _ in range(30):
        feeder.feed(*((15, rng.randbytes(15_000).hex(), 1) for _ in range(40)))
    feeder.feed((25, "small", 1))
    small, large, last = worker.seal(3)
    assert (small.counts[CONTRIBUTED], large.counts[CONTRIBUTED], last.counts[CONTRIBUTED]) == (1, 0, 1)
    assert (large.counts[OVERFLOW], large.payloads) == (1200, (b"",))
    assert rows(worker, last) == [(1,)], "the job goes on"
    assert worker.problems.samples[-1].startswith("interval 1 is given up: a partial result takes more than")
