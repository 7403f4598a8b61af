"""Merges and last steps off the loop: together, in order, and no failure is another one's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import pytest

from elfmesh.agent.runtime import compute_threads
from elfmesh.agent.runtime.compute_threads import HeavyWork
from elfmesh.cbt import Content
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import ProtocolError, ResultTooLarge
from elfmesh.machine import Event
from elfmesh.srt.events import Merged, MergeRequest
from elfmesh.storage.crashes import EVALUATING_FILE, INTERVALS_MAX, CrashGuard

T = TypeVar("T")


class Compute:
    def encode(self, tables: Mapping[str, Content], partitions: int) -> list[bytes]:
        raise AssertionError("the workers encode")

    def merge(self, parts: tuple[bytes, ...]) -> bytes:
        if b"bad" in parts:
            raise ProtocolError("damaged")
        if b"bug" in parts:
            raise ZeroDivisionError
        return b"".join(parts)

    def merged_early(self, effect: ctl.MergeEarly) -> ctl.EarlyMerged:
        return ctl.EarlyMerged(effect.job, effect.epoch, effect.interval, effect.states[0].payload, 1)

    def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
        if effect.open == b"bad":
            raise ProtocolError("damaged")
        rows = b"rows of %d" % effect.interval
        return ctl.Finalised(effect.job, effect.epoch, effect.interval, rows)


class TaskQueue:
    """An executor that counts hand-overs."""

    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        self.lanes.append(lane)
        await asyncio.sleep(0)
        return work()

    def close(self) -> None:
        pass


def run(requests: list[Any], later: list[Any] | None = None) -> tuple[list[Event], TaskQueue, Counter[str]]:
    outcomes: list[Event] = []
    turns, counters = TaskQueue(), Counter[str]()

    async def main() -> None:
        tasks: list[asyncio.Task[None]] = []

        def spawn(work: Coroutine[Any, Any, None]) -> None:
            tasks.append(asyncio.get_running_loop().create_task(work))

        work = HeavyWork(Compute(), turns, spawn, outcomes.append, counters)
        for request in requests:
            work.ask(request)
        await asyncio.gather(*tasks)
        for request in later or []:
            work.ask(request)
        await asyncio.gather(*tasks)

    asyncio.run(main())
    return outcomes, turns, counters


MANIFEST = Manifest(namespace="shop", name="words", creator="me", text="SELECT", version=1, job_id=bytes(20))


def finalise(interval: int, *payloads: bytes) -> ctl.Finalise:
    return ctl.Finalise(bytes(20), 1, MANIFEST, interval, (payloads,))


def test_what_waits_is_done_in_one_turn_and_in_order() -> None:
    requests = [MergeRequest(token, (b"a", b"b")) for token in range(5)]
    outcomes, turns, _ = run([*requests, finalise(7)], [requests[0]])
    assert [each.token for each in outcomes if isinstance(each, Merged)] == [0, 1, 2, 3, 4, 0]
    (finalised,) = (each for each in outcomes if isinstance(each, ctl.Finalised))
    assert finalised is outcomes[5]
    assert (finalised.interval, finalised.rows, finalised.error) == (7, b"rows of 7", "")
    assert turns.lanes == ["compute", "compute"]


def test_a_request_that_fails_costs_no_other_one() -> None:
    parts = ((b"a",), (b"bad",), (b"b",), (b"bug",), (b"c",))
    outcomes, _, counters = run([MergeRequest(at, part) for at, part in enumerate(parts)])
    assert [(each.payload, each.error) for each in outcomes if isinstance(each, Merged)] == [
        (b"a", ""),
        (None, "damaged"),
        (b"b", ""),
        (None, "ZeroDivisionError"),
        (b"c", ""),
    ]
    assert counters["merge_failed"] == 2


def test_much_is_not_done_in_one_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_threads, "TOGETHER_BYTES_MAX", 100)
    big, small = b"x" * 60, b"x" * 10
    outcomes, turns, _ = run([finalise(at, size) for at, size in enumerate((big, big, small, small, big))])
    assert len(turns.lanes) == 3
    assert [each.interval for each in outcomes if isinstance(each, ctl.Finalised)] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(compute_threads, "TOGETHER_MAX", 2)
    assert len(run([finalise(at, small) for at in range(5)])[1].lanes) == 3


def test_an_interval_whose_payloads_are_damaged_costs_no_other_one() -> None:
    asked = [replace(finalise(at, b"x"), open=data) for at, data in enumerate((b"", b"bad"))]
    outcomes, _, counters = run(asked)
    first, second = (each for each in outcomes if isinstance(each, ctl.Finalised))
    assert (first.rows, first.open, first.error) == (b"rows of 0", b"", "")
    assert (second.rows, second.open, second.error) == (b"", b"", "damaged")
    assert counters["finalise_failed"] == 1


def test_an_order_makes_each_interval_with_the_groups_that_the_one_before_it_leaves_open() -> None:
    asked = list[tuple[int, bytes | None]]()

    def make(order: ctl.Finalise) -> ctl.Finalised:
        asked.append((order.interval, order.open))
        left = b"behind %d" % order.interval
        return ctl.Finalised(order.job, 1, order.interval, error="bad" * (order.interval == 2), open=left)

    later = tuple(replace(finalise(at), open=b"old") for at in range(1, 5))
    made = compute_threads.made_in_turn(replace(finalise(0), open=b"before", then=later), make)
    assert asked == [(0, b"before"), (1, b"behind 0"), (2, b"behind 1")]
    assert (made.interval, [each.interval for each in made.then]) == (0, [1, 2])
    assert made.then[-1].error, "what follows an error has to be ordered with other groups"


def test_an_order_is_as_large_as_all_its_intervals() -> None:
    small, size = finalise(0, b"x"), compute_threads.BULK_BYTES
    assert run([replace(small, then=(finalise(1, b"x" * size),))])[1].lanes == ["bulk"]


def test_a_large_merge_keeps_no_small_one_waiting() -> None:
    async def work() -> list[str]:
        turns, notified = Held(), []
        host = HeavyWork(
            Compute(), turns, lambda work: tasks.append(asyncio.ensure_future(work)),
            lambda event: notified.append(cast(Merged, event).token), Counter(),
        )  # fmt: skip
        tasks: list[asyncio.Future[None]] = []
        large = bytes(compute_threads.BULK_BYTES + 1)
        host.ask(MergeRequest(1, (large,)))
        host.ask(MergeRequest(2, (b"small",)))
        host.ask(MergeRequest(3, (large,)))
        host.ask(MergeRequest(4, (b"small",)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert notified == [2, 4]
        turns.bulk.set()
        await asyncio.gather(*tasks)
        assert notified == [2, 4, 1, 3]
        return turns.lanes

    assert asyncio.run(work()) == ["compute", "bulk"]


def test_work_that_took_long_the_last_time_is_queued_as_bulk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compute_threads, "LONG_MAX", 1)
    now = [0.0]

    async def work() -> list[str]:
        turns, tasks = TaskQueue(), list[asyncio.Future[None]]()
        host = HeavyWork(
            Compute(), turns, lambda work: tasks.append(asyncio.ensure_future(work)),
            lambda event: None, Counter(), lambda: now[0],
        )  # fmt: skip
        for tree, took_s in ((b"a", compute_threads.LONG_S), (b"b", 0.0), (b"a", 0.0), (b"a", 0.0)):
            monkeypatch.setattr(Compute, "merge", partial(_takes, now, took_s))
            host.ask(MergeRequest(1, (b"x",), tree))
            await asyncio.gather(*tasks)
        for tree in (b"a", b"b"):
            monkeypatch.setattr(Compute, "merge", partial(_takes, now, compute_threads.LONG_S))
            host.ask(MergeRequest(1, (b"x",), tree))
            await asyncio.gather(*tasks)
        assert len(host._long) == 1
        return turns.lanes

    assert asyncio.run(work()) == ["compute", "compute", "bulk", "compute", "compute", "compute"]


def _takes(now: list[float], took_s: float, parts: tuple[bytes, ...]) -> bytes:
    now[0] += took_s
    return b"merged"


class Held(TaskQueue):
    """Large work waits until it is let go."""

    def __init__(self) -> None:
        super().__init__()
        self.bulk = asyncio.Event()

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        if lane == "bulk":
            await self.bulk.wait()
        return await super().run(lane, work)


def test_a_result_that_is_too_large_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    class TooLarge(Compute):
        def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
            raise ResultTooLarge(11, 10)

    work = HeavyWork(TooLarge(), TaskQueue(), lambda work: work.close(), lambda event: None, Counter())
    outcome = work._finalised(finalise(7, b"x"))
    assert "limits.memory" in outcome.error
    assert "interval 7 of shop/words has no rows" in caplog.text


class Dead(BaseException):
    """The process is gone: nothing is cleared behind it."""


class Deadly(Compute):
    """Ends the process at one interval, by the bytes of its payload."""

    def merge(self, parts: tuple[bytes, ...]) -> bytes:
        if b"deadly" in parts:
            raise Dead
        return super().merge(parts)

    def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
        if (b"deadly",) in effect.parts:
            raise Dead
        return super().finalised(effect)


def die(directory: Path, request: MergeRequest | ctl.Finalise) -> None:
    """Start an agent's heavy work, and be killed while it does this."""
    kept = bytearray()

    class Mapped(Deadly):
        def merge(self, parts: tuple[bytes, ...]) -> bytes:
            kept[:] = (directory / EVALUATING_FILE).read_bytes()
            return super().merge(parts)

        def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
            kept[:] = (directory / EVALUATING_FILE).read_bytes()
            return super().finalised(effect)

    with pytest.raises(Dead):
        heavy_of(directory, Mapped())._outcome(request)
    (directory / EVALUATING_FILE).write_bytes(kept)


def heavy_of(directory: Path, compute: Compute | None = None) -> HeavyWork:
    guard = CrashGuard(directory, lambda: 1e9)
    host = (TaskQueue(), lambda work: work.close(), lambda event: None, Counter[str]())
    return HeavyWork(compute or Deadly(), *host, guard=guard, job_of=lambda tree: "shop/words")


def test_rows_that_ended_the_process_twice_are_not_made_and_the_next_interval_is(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deadly = finalise(7, b"deadly")
    die(tmp_path, deadly)
    with pytest.raises(Dead):  # one death refuses nothing
        heavy_of(tmp_path)._outcome(deadly)
    die(tmp_path, finalise(6, b"deadly"))
    die(tmp_path, deadly)
    work = heavy_of(tmp_path)
    (error,) = [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]
    assert "the rows of shop/words version 1" in error
    assert "interval 7 were made (2 times)" in error
    outcome = cast(ctl.Finalised, work._outcome(deadly))
    assert (outcome.interval, outcome.rows, outcome.rev) == (7, b"", 1)
    assert "killed 2 times while the rows of shop/words" in outcome.error
    assert cast(ctl.Finalised, work._outcome(finalise(8, b"x"))).rows == b"rows of 8"
    other = replace(deadly, manifest=replace_version(MANIFEST, 2))
    with pytest.raises(Dead):  # another version is tried
        work._outcome(other)


def replace_version(manifest: Manifest, version: int) -> Manifest:
    return msgspec.structs.replace(manifest, version=version)


def test_a_job_whose_every_interval_ends_the_process_has_none_made_after_three(tmp_path: Path) -> None:
    for interval in range(INTERVALS_MAX):
        assert cast(ctl.Finalised, heavy_of(tmp_path)._outcome(finalise(9, b"x"))).rows
        for _ in range(2):
            die(tmp_path, finalise(interval, b"deadly"))
    work = heavy_of(tmp_path)
    refused = cast(ctl.Finalised, work._outcome(finalise(9, b"deadly")))
    assert "killed 6 times" in refused.error
    assert "of 3 intervals" in refused.error
    other = replace(finalise(9, b"x"), manifest=replace_version(MANIFEST, 2))
    assert cast(ctl.Finalised, work._outcome(other)).rows == b"rows of 9"
    assert cast(Merged, work._outcome(MergeRequest(1, (b"a", b"b"), bytes(20), 9))).payload == b"ab"


def test_partials_that_ended_the_process_twice_are_not_merged_and_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    deadly = MergeRequest(1, (b"deadly", b"b"), bytes(20), 7)
    for _ in range(2):
        die(tmp_path, deadly)
    work = heavy_of(tmp_path)
    refused = cast(Merged, work._outcome(deadly))
    assert refused.payload is None
    assert "killed 2 times while the partials of tree 0000" in refused.error
    assert "interval 7 of shop/words is not merged here: an agent was killed 2 times" in caplog.text
    for request in (
        msgspec.structs.replace(deadly, interval=8, parts=(b"a", b"b")),
        msgspec.structs.replace(deadly, tree=b"1", parts=(b"a", b"b")),
    ):
        assert cast(Merged, work._outcome(request)).payload == b"ab"
