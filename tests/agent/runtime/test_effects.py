"""What the core wants happens in its order, and behind a write only when that is durable."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytest

from elfmesh.agent.runtime import effects as outbox
from elfmesh.agent.runtime.effects import Outbox
from elfmesh.control.protocol import events as ctl
from elfmesh.errors import DiskFull
from elfmesh.machine import Contact, Effect, Event, Message, Send
from elfmesh.overlay.messages import Ping
from elfmesh.storage import starving
from elfmesh.storage.durable import Durable, Write

T = TypeVar("T")
PEER = Contact(b"p" * 20, "10.0.0.1", 7400, 1)


class Note(Message, frozen=True, tag="test.outbox_note"):
    """Something for a peer that promises something."""

    number: int


def note(number: int) -> Send:
    return Send(PEER, Note(number))


def remembered(key: bytes) -> ctl.Persist:
    return ctl.Persist("job", key, b"x")


class Disk:
    """Thread, state log and results logs in one: nothing is done before `turn`."""

    def __init__(self) -> None:
        self.full = False
        self.groups: list[list[Write]] = []
        self._wanted: list[tuple[Callable[[], Any], asyncio.Future[Any]]] = []

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        assert lane == "store"
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._wanted.append((work, done))
        return await done

    async def turn(self) -> None:
        """Do what was wanted, and let the loop see it."""
        await _settle()
        wanted, self._wanted = self._wanted, []
        for work, done in wanted:
            try:
                done.set_result(work())
            except DiskFull as error:
                done.set_exception(error)
        await _settle()

    def damaged(self) -> tuple[ctl.LogInfo, ...]:
        return ()

    def write(self, effects: list[Write]) -> None:
        if self.full:
            raise DiskFull("the disk is full")
        self.groups.append(list(effects))
        effects.clear()

    def read(self, effect: ctl.ReadLog) -> Any:
        return ("page", effect)

    def drop(self, job: bytes, *, retire: bool = False) -> None:
        self.groups.append([])


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


class Rig:
    """An outbox, its disk, and what came out of it."""

    def __init__(self) -> None:
        self.disk, self.out, self.stepped = Disk(), list[Effect](), list[Event]()
        self.counters: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        self.outbox = Outbox(
            carry_out=self.out.append,
            promises_nothing=lambda reply: reply.token == 1,
            durable=cast(Durable, self.disk),
            results=cast(Any, self.disk),
            dead_letter=lambda letter: None,
            executor=cast(Any, self.disk),
            spawn=lambda work: self._tasks.add(asyncio.get_running_loop().create_task(work)),
            step=self.stepped.append,
            counters=self.counters,
            wall_us=lambda: 0,
        )

    def put(self, *effects: Effect) -> None:
        self.outbox.put(list(effects), asyncio.get_running_loop().time())

    async def end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def test_nothing_passes_a_write_that_is_not_durable_but_signs_of_life() -> None:
    async def main() -> None:
        rig = Rig()
        alive = Send(PEER, Ping(1))
        rig.put(note(1), remembered(b"a"), note(2))
        rig.put(alive)
        await _settle()
        assert rig.out == [note(1), alive]
        await rig.disk.turn()
        assert rig.out == [note(1), alive, note(2)]
        await rig.outbox.wait_stored()
        await rig.end()

    asyncio.run(main())


def test_writes_of_one_turn_are_one_group_up_to_another_kind() -> None:
    async def main() -> None:
        rig = Rig()
        rig.put(remembered(b"a"), note(1), remembered(b"b"), ctl.DropLog(b"j"), remembered(b"c"))
        rig.put(remembered(b"d"))
        await rig.disk.turn()
        assert rig.disk.groups == [[remembered(b"a"), remembered(b"b")]]
        assert rig.out == [note(1)]
        await rig.disk.turn()
        await rig.disk.turn()
        assert rig.disk.groups == [
            [remembered(b"a"), remembered(b"b")],
            [],
            [remembered(b"c"), remembered(b"d")],
        ]
        await rig.end()

    asyncio.run(main())


def test_a_read_delays_no_other_effect() -> None:
    async def main() -> None:
        rig = Rig()
        read = ctl.ReadLog(1, b"j", None, None, 10)
        rig.put(read, note(1))
        await _settle()
        assert rig.out == [note(1)]
        await rig.disk.turn()
        assert list[object](rig.stepped) == [("page", read)]
        await rig.end()

    asyncio.run(main())


def test_a_full_disk_loses_messages_keeps_promises_and_answers_what_promises_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox, "FULL_RETRY_S", 0.0)

    async def main() -> None:
        rig = Rig()
        harmless, promise = ctl.Reply(1, 200, {}), ctl.Reply(2, 200, {})
        rig.disk.full = True
        rig.put(remembered(b"a"), note(1), harmless, promise)
        await rig.disk.turn()
        assert rig.outbox.problem == "the disk is full"
        assert rig.out == [harmless]
        assert rig.counters == {"disk_full": 1, "not_sent_disk_full": 1}
        rig.put(note(2), Send(PEER, Ping(1)))  # to its peers the agent is away
        assert rig.out == [harmless]
        rig.disk.full = False
        await rig.disk.turn()
        assert rig.out == [harmless, promise]
        assert not rig.outbox.problem
        assert len(rig.outbox) == 0
        await rig.end()

    asyncio.run(main())


def test_a_thread_that_waits_for_a_descriptor_is_a_full_disk_to_peers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        rig = Rig()
        harmless, promise = ctl.Reply(1, 200, {}), ctl.Reply(2, 200, {})
        monkeypatch.setattr(starving, "_waiting", {"elf-store_0": "no descriptor", "read:log": "another"})
        rig.put(note(1))
        assert len(rig.outbox.problem) == 0, "nothing is to be written"
        rig.put(remembered(b"a"))
        rig.put(note(2), harmless, promise)
        assert rig.outbox.problem == "no descriptor"
        assert rig.out == [note(1), harmless]
        starving._waiting.pop("elf-store_0")
        await rig.disk.turn()
        assert rig.out == [note(1), harmless, promise]
        assert not rig.outbox.problem
        await rig.end()

    asyncio.run(main())


def test_a_full_disk_does_not_keep_an_agent_that_stops() -> None:
    async def main() -> None:
        rig = Rig()
        rig.disk.full = True
        rig.outbox.close()
        rig.put(remembered(b"a"), ctl.Reply(2, 200, {}))
        await rig.disk.turn()
        await rig.outbox.wait_stored()
        assert rig.out == []
        await rig.end()

    asyncio.run(main())
