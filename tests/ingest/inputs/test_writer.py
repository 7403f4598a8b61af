"""Many senders, one spool: written together, told when it is durable, and held while there is no room."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from elfmesh.ingest.inputs import writer
from elfmesh.ingest.inputs.spool import SpoolFull
from elfmesh.ingest.inputs.writer import SpoolWriter
from tests.patience import PATIENCE_S


class Spool:
    """One in memory; while it is full, `over` says whether its own limit is why."""

    def __init__(self) -> None:
        self.written: list[tuple[bytes, list[Any]]] = []
        self.full = self.over = self.closed = False
        self.given_up: list[Any] = []

    def append(self, data: bytes, marks: Sequence[Any]) -> None:
        if self.full:
            raise SpoolFull("no room")
        self.written.append((data, list(marks)))

    def give_up_read(self, restarts: Sequence[Any]) -> bool:
        self.given_up.append(restarts)
        self.full = False
        return True

    def close(self) -> None:
        self.closed = True


class Executor:
    """Runs at once, after the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.gate.set()

    async def run(self, lane: str, call: Callable[[], Any]) -> Any:
        assert lane == "spool:s"
        await self.gate.wait()
        return call()


async def restarts() -> Sequence[Sequence[Any]]:
    return [["place"]]


def made() -> tuple[Any, Executor, SpoolWriter]:
    spool, executor = Spool(), Executor()
    return spool, executor, SpoolWriter("s", spool, executor, restarts)  # type: ignore[arg-type]  # played


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - nothing sets an event
            await asyncio.sleep(0.001)


async def test_messages_that_came_meanwhile_are_written_together_and_acknowledged_after() -> None:
    spool, executor, one = made()
    executor.gate.clear()
    sent = [asyncio.ensure_future(one.put(b"a\n", 1))]
    await asyncio.sleep(0.01)
    sent += [asyncio.ensure_future(one.put(b"b\n", 2, ("p", 1))), asyncio.ensure_future(one.put(b"c\n", 3))]
    await asyncio.sleep(0.01)
    assert not any(each.done() for each in sent)
    executor.gate.set()
    await asyncio.gather(*sent)
    assert spool.written == [(b"a\n", []), (b"b\nc\n", [("p", 1)])]
    assert (one.counters.messages, one.counters.nbytes) == (6, 6)
    await one.close()
    assert spool.closed


async def test_a_commit_has_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "COMMIT_BYTES_MAX", 4)
    spool, executor, one = made()
    executor.gate.clear()
    sent = [asyncio.ensure_future(one.put(data, 1)) for data in (b"aa\n", b"bb\n", b"cc\n")]
    await asyncio.sleep(0)
    executor.gate.set()
    await asyncio.gather(*sent)
    assert [data for data, _ in spool.written] == [b"aa\nbb\n", b"cc\n"]
    await one.close()


async def test_a_full_disk_holds_the_senders_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "FULL_RETRY_S", 0.001)
    spool, _, one = made()
    spool.full = True
    sent = asyncio.ensure_future(one.put(b"a\n", 1))
    await until(lambda: one.waiting)
    assert one.counters.problem == "the spool has no room: no room"
    assert (sent.done(), spool.given_up) == (False, [])
    spool.full = False
    await sent
    assert not one.waiting
    await one.close()


async def test_what_was_read_makes_room_in_a_spool_that_is_over() -> None:
    spool, _, one = made()
    spool.full = spool.over = True
    await one.put(b"a\n", 1)
    assert (spool.given_up, spool.written, one.counters.problem) == ([[["place"]]], [(b"a\n", [])], "")
    await one.close()


async def test_senders_that_wait_when_it_is_closed_are_cancelled() -> None:
    _, executor, one = made()
    executor.gate.clear()
    sent = asyncio.ensure_future(one.put(b"a\n", 1))
    await asyncio.sleep(0.01)
    closing = asyncio.ensure_future(one.close())
    await asyncio.sleep(0.01)
    executor.gate.set()
    await closing
    with pytest.raises(asyncio.CancelledError):
        await sent
