"""Records that come late for what a worker has sealed: revisions, frames, restarts (D-1, D-12)."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pytest

from elfmesh import ql
from elfmesh.cbt import decode_partial, finish, merge_partials
from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import BROKEN, CONTRIBUTED, EXPIRED, FILTERED, FIRST, LATE, OVERFLOW
from elfmesh.control.protocol import events as ctl
from elfmesh.ingest.worker.late import INTERVALS_MAX, Evaluation, LateRecords, Revision
from elfmesh.ingest.worker.worker import JobWorker
from elfmesh.storage.frames import Released
from tests.ingest.rotation.station import PROMPT, Station
from tests.ingest.worker.test_worker import HOP, NOW, TUMBLE, Feeder, S

ROOM = 1 << 20


def worker(text: str = TUMBLE) -> tuple[JobWorker, Feeder]:
    statement = ql.parse(text)
    late = LateRecords([Evaluation(FIRST, ql.Query(statement))], floor=0)
    made = JobWorker(statement, start_index=0, late=late)
    return made, Feeder(made)


def revise(made: JobWorker, room: int = ROOM) -> list[Revision]:
    """What a job does: what has no room is counted."""
    revisions, lost = made.take_late(NOW, room)
    made.give_up(lost, OVERFLOW)
    return revisions


def sums(made: JobWorker, payloads: tuple[bytes, ...], index: int) -> dict[object, object]:
    payload = merge_partials(payloads)
    tables = finish(decode_partial(payload)) if payload else {}
    window = made.statement.window
    assert window is not None
    bounds = (index * window.slide_us, index * window.slide_us + window.size_us)
    return {
        next(iter(row.values())): tuple(row.values())[1]
        for row in made.query.finalise(tables, bounds).to_pylist()
    }


def seal(made: JobWorker, upto: int) -> None:
    assert made.late is not None
    for entry in made.seal(upto):
        made.late.sealed(entry)


def test_what_comes_late_makes_a_whole_contribution_with_the_next_revision() -> None:
    made, feeder = worker()
    feeder.feed((11, "a", 1), (12, "b", 2), (35, "a", 1))
    seal(made, 3)
    feeder.feed((13, "a", 10), (5, "c", 1))
    first, second = revise(made)
    assert (first.interval, first.rev, second.interval, second.rev) == (0, 2, 1, 2)
    assert sums(made, first.payloads, 0) == {"c": 1}
    assert sums(made, second.payloads, 1) == {"a": 11, "b": 2}
    assert (second.counts[CONTRIBUTED], second.added[CONTRIBUTED]) == (3, 1)
    feeder.feed((14, "b", 5))
    (third,) = revise(made)
    assert (third.rev, sums(made, third.payloads, 1)) == (3, {"a": 11, "b": 7})
    assert revise(made) == []


def test_what_is_closed_is_late_whether_it_was_held_already_or_comes_now() -> None:
    made, feeder = worker()
    feeder.feed((11, "a", 1), (35, "a", 1))
    seal(made, 3)
    feeder.feed((13, "a", 10))
    assert made.late is not None
    made.late.close_below(2)
    made.drop_closed()
    feeder.feed((14, "a", 10), (25, "b", 1))
    (only,) = revise(made)
    assert (only.interval, sums(made, only.payloads, 2)) == (2, {"b": 1})
    (sealed,) = made.seal(4)
    assert (sealed.index, sealed.counts[LATE]) == (3, 2)


def test_late_records_are_filtered_as_others_are() -> None:
    made, feeder = worker(TUMBLE.replace("GROUP", "WHERE v > 5 GROUP"))
    feeder.feed((35, "a", 9))
    seal(made, 3)
    feeder.feed((11, "a", 9), (12, "a", 1))
    (one,) = revise(made)
    assert (one.counts[CONTRIBUTED], one.counts[FILTERED]) == (1, 1)


def test_what_has_no_room_is_an_overflow_and_the_contribution_stays() -> None:
    made, feeder = worker()
    feeder.feed((11, "a", 1), (35, "a", 1))
    seal(made, 3)
    feeder.feed((12, "b", 1))
    assert revise(made, 1) == []
    (sealed,) = made.seal(4)
    assert sealed.counts[OVERFLOW] == 1


def test_times_from_all_over_the_past_are_not_all_held() -> None:
    made, feeder = worker()
    feeder.feed((100_000, "a", 1), now=200_000 * S)
    seal(made, 10_000)
    feeder.feed(*((10 * index, "x", 1) for index in range(2 * INTERVALS_MAX)), now=200_000 * S)
    revised = revise(made)
    (sealed,) = made.seal(10_001)
    assert len(revised) == INTERVALS_MAX
    assert sealed.counts[LATE] == INTERVALS_MAX


@pytest.mark.parametrize("closed", range(4))
def test_a_record_of_overlapping_windows_is_in_those_that_are_open_and_late_for_the_others(
    closed: int,
) -> None:
    made, feeder = worker(HOP)
    feeder.feed((30, "z", 1))
    assert made.late is not None
    made.late.close_below(closed)
    made.drop_closed()
    seal(made, 3)
    feeder.feed((12, "a", 1), (17, "b", 1))  # in 1 and 2, in 2 and 3
    revised = {each.interval: sums(made, each.payloads, each.interval) for each in revise(made)}
    rest = {each.index: each for each in made.seal(7)}
    assert revised == {
        index: dict.fromkeys(keys, 1) for index, keys in ((1, "a"), (2, "ab")) if index >= closed
    }
    assert sums(made, rest[3].payloads, 3)["b"] == 1
    assert sum(each.counts[LATE] for each in rest.values()) == sum((closed > 1, closed > 2, closed > 2)) - (
        closed == 3  # all windows of the first are closed: it is late, once
    )


# -- frames and restarts -------------------------------------------------------------------------------


STEPS_S = (0.3, 1.0, 5.0, 10.0)
"""Short ones are over before the next revision may be made."""


class Host(Station):
    """A station whose log has late records, and that may crash before or after a frame is on disk."""

    def __init__(self, room: Path, rng: random.Random) -> None:
        super().__init__(room, text=PROMPT)
        self.rng, self.revs, self.received = rng, Counter[int](), 0
        self.crash: str = ""
        self.block_bytes = rng.choice((100, 300, 1 << 16))

    def up(self) -> None:
        super().up()
        self._read_slowly()

    def _read_slowly(self) -> None:
        """What is read again after a crash takes several polls, with frames and crashes between them."""
        poll, limit = self._reader.poll, self.block_bytes
        self._reader.poll = lambda _bytes_max: poll(limit)  # type: ignore[method-assign,assignment,misc]  # as a big log is

    def line(self, **more: object) -> bytes:
        back_s, self.now_s = self.rng.choice((0.0, 0.0, 3.0, 12.0, 31.0)), self.now_s
        now_s, self.now_s = self.now_s, max(0.0, self.now_s - back_s)
        try:
            return super().line(**more)
        finally:
            self.now_s = now_s

    def _poll(self) -> None:
        (outcome,) = self._stream.evaluate(self._stream.poll(self.wall_us))
        assert not outcome.failed, outcome.events
        if outcome.frames and self.crash == "before":
            raise Crash
        for frame in outcome.frames:
            self._frames.append(frame)
        self._frames.sync()
        if outcome.frames and self.crash == "after":
            raise Crash
        for event in outcome.events:
            self._hear(event)

    def _hear(self, event: object) -> None:
        run: tuple[Contribution, ...] = ()
        if isinstance(event, ctl.Revised):
            assert event.again or event.seq == self.received + 1, "in order, none left out"
            self.received = max(self.received, event.seq)
        if isinstance(event, ctl.Sealed | ctl.Revised) and event.parts:
            run = event.parts[0]
        for entry in run:
            payload = entry.payload
            assert entry.rev >= self.revs[entry.interval], "never an older one"
            self.revs[entry.interval] = entry.rev
            self.counts[entry.interval] = entry.counts
            rows = self.rows[entry.interval] = Counter[int]()
            for row in finish(decode_partial(payload))["main"].to_pylist() if payload else ():
                rows[row["k0"]] += next(value for name, value in row.items() if name != "k0")

    def close(self, below: int) -> None:
        """The intervals below are closed."""
        self._job.release(below)
        self._frames.append(Released(self._job.key, below, self.received))
        self._frames.compact()


class Crash(Exception):
    """Of the station, in mid-sentence."""


@pytest.mark.parametrize("seed", range(15))
def test_every_record_is_in_one_bucket_wherever_the_agent_dies(seed: int, tmp_path: Path) -> None:
    rng = random.Random(seed)
    host = Host(tmp_path, rng)
    closes = rng.random() < 0.7
    for _ in range(40):
        host.write(rng.randrange(4))
        host.crash = rng.choice(("", "", "", "before", "after", "now"))
        try:
            host.step(rng.choice(STEPS_S), polls=rng.choice((1, 3)))
        except Crash:
            host.down()
        if host.crash == "now" and host._running:
            host.down()
        if closes and host._running and host.counts and rng.random() < 0.3:
            host.close(max(host.counts) - rng.randrange(3))
    host.crash = ""
    host.finish()
    totals = [sum(column) for column in zip(*host.counts.values(), strict=True)]
    assert totals[CONTRIBUTED] + totals[LATE] + totals[EXPIRED] == len(host.written), totals
    rows: Counter[int] = sum(host.rows.values(), Counter())
    assert max(rows.values()) == 1, "nothing counts twice"
    assert sum(rows.values()) == totals[CONTRIBUTED]
    assert sum(totals) == len(host.written)
    if not closes:
        assert totals[LATE] == 0, "no master had closed anything"


def test_revisions_count_the_violations_among_their_late_records() -> None:
    made, feeder = worker(TUMBLE.replace("LATENESS '2 s'", "ASSUME (v >= 0, k -> v)"))
    feeder.feed((11, "a", 1), (12, "b", -2), (35, "a", 1))
    seal(made, 3)
    feeder.feed((13, "a", -10), (14, "c", 1), (15, "c", 2))
    (first,) = revise(made)
    assert (first.counts[BROKEN:], first.added[BROKEN:]) == ((3,), (2,))
    feeder.feed((16, "a", 1))
    (second,) = revise(made)
    assert (second.counts[BROKEN:], second.added[BROKEN:]) == ((3,), ())
    feeder.feed((17, "a", -1))
    assert revise(made, room=0) == []
    assert made.late is not None
    assert made.late.broken == 2
    (sealed, *_) = made.seal(4)
    assert (sealed.counts[OVERFLOW], sealed.counts[BROKEN:]) == (1, ()), "records of no result"
