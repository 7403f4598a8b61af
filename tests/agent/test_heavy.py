"""Merges and last steps off the loop: together, in order, and no failure is another one's."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar, cast

import pytest

from elfmesh.agent import heavy
from elfmesh.agent.heavy import HeavyWork
from elfmesh.cbt import Content
from elfmesh.control import events as ctl
from elfmesh.errors import ProtocolError
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

    def finalise(self, effect: ctl.Finalise) -> bytes:
        return b"rows of %d" % effect.interval


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
