"""What the pump gets from its host: threads, a wall clock and an identity; each can be replaced.

Owns no logic of an agent. In simulation the threads become plain calls, the wall clock a number and the
identity a seeded one, and the pump above cannot tell.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Literal, Protocol, TypeVar

import msgspec

from elfmesh.agent.storage import Storage
from elfmesh.errors import StorageError
from elfmesh.ids import ID_BYTES

T = TypeVar("T")
Lane = Literal["read", "compute", "store"]
IDENTITY_FILE = "id"


class Executor(Protocol):
    """Runs blocking work off the loop. Calls of one lane run one at a time, in the order they were made."""

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """The result of `work`; its exception is raised here."""
        ...

    def close(self) -> None:
        """Finish what runs and end."""
        ...


class ThreadExecutor:
    """One thread each for reading, merging and syncing: a web server has work of its own."""

    def __init__(self) -> None:
        lanes: tuple[Lane, ...] = ("read", "compute", "store")
        self._threads = {lane: ThreadPoolExecutor(1, thread_name_prefix=f"elf-{lane}") for lane in lanes}

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Run in the lane's thread."""
        return await asyncio.get_running_loop().run_in_executor(self._threads[lane], work)

    def close(self) -> None:
        """Wait for what runs, drop what has not begun."""
        for pool in self._threads.values():
            pool.shutdown(wait=True, cancel_futures=True)


class InlineExecutor:
    """Runs the work at once on the loop: for the simulator, where threads would break the order."""

    async def run(self, lane: Lane, work: Callable[[], T]) -> T:
        """Run after a round of the loop, as a thread's answer would come."""
        await asyncio.sleep(0)
        return work()

    def close(self) -> None:
        """Nothing to end."""


def wall_clock_us() -> int:
    """Microseconds since the epoch, UTC."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this agent is.

    Attributes:
        id: 160 random bits, kept for the life of the data directory.
        incarnation: grows with each start, so that others tell this life from the last one.
        rng: seeded once, for everything random in the cores.
    """

    id: bytes
    incarnation: int
    rng: random.Random


class _Stored(msgspec.Struct):
    id: str
    incarnation: int


def load_identity(storage: Storage) -> Identity:
    """Read the identity of a data directory, or make one; the incarnation is raised and stored first.

    Raises:
        StorageError: the file is damaged, or cannot be written.
    """
    raw = storage.read(IDENTITY_FILE)
    try:
        stored = msgspec.json.decode(raw, type=_Stored) if raw else _Stored(secrets.token_hex(ID_BYTES), 0)
        agent = bytes.fromhex(stored.id)
        if len(agent) != ID_BYTES:
            raise ValueError(f"an id has {ID_BYTES} bytes")
    except (msgspec.MsgspecError, ValueError) as error:
        raise StorageError(
            f"is damaged: {error}", where=IDENTITY_FILE, hint="Remove the file; the agent becomes a new one."
        ) from None
    stored.incarnation += 1
    storage.write(IDENTITY_FILE, msgspec.json.encode(stored))
    return Identity(agent, stored.incarnation, random.Random(secrets.randbits(64)))
