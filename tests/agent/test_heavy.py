"""Merges and last steps off the loop: together, in order, and no failure is another one's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeVar, cast

import pytest

from elfmesh.agent import heavy
from elfmesh.agent.heavy import HeavyWork
from elfmesh.cbt import Content
from elfmesh.control import events as ctl
from elfmesh.errors import ProtocolError, ResultTooLarge
from elfmesh.machine import Event
from elfmesh.srt.events import Merged, MergeRequest

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

    def finalised(self, effect: ctl.Finalise) -> ctl.Finalised:
        if effect.open == b"bad":
            raise ProtocolError("damaged")
        rows = b"rows of %d" % effect.interval
        return ctl.Finalised(effect.job, effect.epoch, effect.interval, rows)


class Turns:
    """An executor that counts hand-overs."""

    def __init__(self) -> None:
        self.lanes: list[str] = []

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        self.lanes.append(lane)
        await asyncio.sleep(0)
        return work()

    def close(self) -> None:
        pass


def run(requests: list[Any], later: list[Any] | None = None) -> tuple[list[Event], Turns, Counter[str]]:
    outcomes: list[Event] = []
    turns, counters = Turns(), Counter[str]()

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


def finalise(interval: int, *payloads: bytes) -> ctl.Finalise:
    return ctl.Finalise(b"job", 1, cast(Any, None), interval, (payloads,))


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
    monkeypatch.setattr(heavy, "TOGETHER_BYTES_MAX", 100)
    big, small = b"x" * 60, b"x" * 10
    outcomes, turns, _ = run([finalise(at, size) for at, size in enumerate((big, big, small, small, big))])
    assert len(turns.lanes) == 3
    assert [each.interval for each in outcomes if isinstance(each, ctl.Finalised)] == [0, 1, 2, 3, 4]
    monkeypatch.setattr(heavy, "TOGETHER_MAX", 2)
    assert len(run([finalise(at, small) for at in range(5)])[1].lanes) == 3


def test_an_interval_whose_payloads_are_damaged_costs_no_other_one() -> None:
    asked = [replace(finalise(at, b"x"), open=data) for at, data in enumerate((b"", b"bad"))]
    outcomes, _, counters = run(asked)
    first, second = (each for each in outcomes if isinstance(each, ctl.Finalised))
    assert (first.rows, first.open, first.error) == (b"rows of 0", b"", "")
    assert (second.rows, second.open, second.error) == (b"", b"", "damaged")
    assert counters["finalise_failed"] == 1


def test_a_large_merge_keeps_no_small_one_waiting() -> None:
    async def work() -> list[str]:
        turns, told = Held(), []
        host = HeavyWork(
            Compute(), turns, lambda work: tasks.append(asyncio.ensure_future(work)),
            lambda event: told.append(cast(Merged, event).token), Counter(),
        )  # fmt: skip
        tasks: list[asyncio.Future[None]] = []
        large = bytes(heavy.BULK_BYTES + 1)
        host.ask(MergeRequest(1, (large,)))
        host.ask(MergeRequest(2, (b"small",)))
        host.ask(MergeRequest(3, (large,)))
        host.ask(MergeRequest(4, (b"small",)))
        for _ in range(20):
            await asyncio.sleep(0)
        assert told == [2, 4]
        turns.bulk.set()
        await asyncio.gather(*tasks)
        assert told == [2, 4, 1, 3]
        return turns.lanes

    assert asyncio.run(work()) == ["compute", "bulk"]


def test_what_took_long_the_last_time_keeps_nobody_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heavy, "LONG_MAX", 1)
    now = [0.0]

    async def work() -> list[str]:
        turns, tasks = Turns(), list[asyncio.Future[None]]()
        host = HeavyWork(
            Compute(), turns, lambda work: tasks.append(asyncio.ensure_future(work)),
            lambda event: None, Counter(), lambda: now[0],
        )  # fmt: skip
        for tree, took_s in ((b"a", heavy.LONG_S), (b"b", 0.0), (b"a", 0.0), (b"a", 0.0)):
            monkeypatch.setattr(Compute, "merge", partial(_takes, now, took_s))
            host.ask(MergeRequest(1, (b"x",), tree))
            await asyncio.gather(*tasks)
        for tree in (b"a", b"b"):
            monkeypatch.setattr(Compute, "merge", partial(_takes, now, heavy.LONG_S))
            host.ask(MergeRequest(1, (b"x",), tree))
            await asyncio.gather(*tasks)
        assert len(host._long) == 1
        return turns.lanes

    assert asyncio.run(work()) == ["compute", "compute", "bulk", "compute", "compute", "compute"]


def _takes(now: list[float], took_s: float, parts: tuple[bytes, ...]) -> bytes:
    now[0] += took_s
    return b"merged"


class Held(Turns):
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

    effect = replace(finalise(7, b"x"), manifest=cast(Any, SimpleNamespace(qualified="shop/words")))
    work = HeavyWork(TooLarge(), Turns(), lambda work: work.close(), lambda event: None, Counter())
    outcome = work._finalised(effect)
    assert "limits.memory" in outcome.error
    assert "interval 7 of shop/words has no rows" in caplog.text
