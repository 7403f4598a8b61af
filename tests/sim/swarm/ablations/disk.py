"""What agents do with their disk without its safeguards; see `ablations`."""

from __future__ import annotations

import contextlib
from typing import Any

from elfmesh.errors import StorageError
from tests.sim.swarm.ablations.names import Patch, instead, original


async def given_before_written(self: Any, polled: Any) -> None:
    """What is sealed is handed on before it is on disk."""
    outcome = await self._executor.run(self._working, lambda: self.stream.evaluate(polled))
    for event in outcome.events:
        self.stream.given(event)
        self._emit(event)
    if outcome.frames:
        await self._write(outcome.frames)


def no_frames_reported_again() -> list[Patch]:
    """A restart says nothing of what is sealed."""
    found = original("say-again")

    def recover(self: Any, frames: Any) -> list[Any]:
        found(self, frames)
        return []

    return instead("say-again", recover)


def damage_declared_at_each_beginning() -> list[Patch]:
    """No job knows what its frames declare."""
    found = original("damage-once")

    def undeclared(self: Any, job: str) -> Any:
        self._appended.clear()
        return found(self, job)

    return instead("damage-once", undeclared)


def effects_do_not_wait() -> list[Patch]:
    """What follows a write does not wait for it."""
    found = original("effects-wait")

    def drain(self: Any) -> None:
        self._stored.set()
        found(self)

    return instead("effects-wait", drain)


def write_in_place(self: Any, name: str, data: bytes) -> None:
    """State is written over what was there."""
    path = self.root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as file:
        file.write(data)


def failed_sync_ignored() -> list[Patch]:
    """A sync that fails is taken for one that does not."""
    found = original("failed-sync")

    def sync(self: Any) -> None:
        with contextlib.suppress(StorageError):
            found(self)

    return instead("failed-sync", sync)
