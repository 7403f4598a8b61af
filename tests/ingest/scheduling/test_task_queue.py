"""What is wanted of a job is done in turn, of several jobs side by side; frames wait for room on disk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

import pytest

from elfmesh.errors import DiskFull
from elfmesh.ingest import frame_writer
from elfmesh.ingest.frame_writer import FrameWriter
from elfmesh.ingest.scheduling.task_queue import TaskQueue
from elfmesh.storage.frames import Forgotten

T = TypeVar("T")


def never(*wanted: object) -> None:
    raise AssertionError(f"not in this test: {wanted}")


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_one_job_waits_for_itself_and_for_no_other() -> None:
    done: list[str] = []

    async def main() -> None:
        task_queue = TaskQueue(never)
        gate = asyncio.Event()

        async def work(name: str, *, waits: bool = False) -> None:
            if waits:
                await gate.wait()
            done.append(name)

        task_queue.command(b"a", partial(work, "a1", waits=True))
        task_queue.command(b"a", partial(work, "a2"))
        task_queue.command(b"b", partial(work, "b1"))
        await _settle()
        assert done == ["b1"]
        assert task_queue.busy(b"a")
        assert not task_queue.busy(b"b")
        gate.set()
        await task_queue.wait_done()
        assert done == ["b1", "a1", "a2"]
        assert task_queue.idle

    asyncio.run(main())


def test_what_was_not_begun_is_left_when_the_agent_stops() -> None:
    done: list[str] = []

    async def main() -> None:
        task_queue = TaskQueue(never)

        async def work(name: str) -> None:
            await asyncio.sleep(0)
            done.append(name)

        task_queue.command(b"a", partial(work, "begun"))
        task_queue.command(b"a", partial(work, "waits"))
        await asyncio.sleep(0)
        task_queue.close()
        await task_queue.wait_done()

    asyncio.run(main())
    assert done == ["begun"]


def test_an_error_of_any_work_ends_the_agent() -> None:
    errors: list[BaseException] = []

    async def main() -> None:
        task_queue = TaskQueue(errors.append)

        async def work() -> None:
            raise ZeroDivisionError

        task_queue.command(b"a", work)
        await task_queue.wait_done()

    asyncio.run(main())
    assert [type(error) for error in errors] == [ZeroDivisionError]


class Log:
    """A frame log that is full for a while, and its thread."""

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals
        self.frames: list[Any] = []
        self.syncs = 0

    async def run(self, lane: str, work: Callable[[], T]) -> T:
        assert lane == "store"
        await asyncio.sleep(0)
        return work()

    def append(self, frame: Any) -> None:
        if frame.job == "second" and self.refusals:
            self.refusals -= 1
            raise DiskFull("no room")
        self.frames.append(frame)

    def sync(self) -> None:
        self.syncs += 1


def test_frames_are_written_once_whatever_room_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_writer, "FULL_RETRY_S", 0.0)
    log = Log(refusals=2)
    writer = FrameWriter(cast(Any, log), cast(Any, log), never)
    frames = [Forgotten("first"), Forgotten("second"), Forgotten("third")]
    asyncio.run(writer.write(frames))
    assert log.frames == frames
    assert log.syncs == 1
    assert not writer.problem


def test_a_full_disk_does_not_keep_an_agent_that_stops() -> None:
    log = Log(refusals=1)
    writer = FrameWriter(cast(Any, log), cast(Any, log), never)
    writer.stop_waiting()
    with pytest.raises(DiskFull):
        asyncio.run(writer.write([Forgotten("second")]))
