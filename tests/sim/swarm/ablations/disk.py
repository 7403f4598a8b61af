"""What agents do with their disk without its safeguards; see `ablations`."""

from __future__ import annotations

import contextlib
from typing import Any

from elfmesh.agent.runtime import effects
from elfmesh.errors import StorageError
from elfmesh.ingest import read_loop
from elfmesh.ingest.worker import jobs
from elfmesh.storage import storage

Patch = tuple[Any, str, Any]


def given_before_written() -> list[Patch]:
    """What is sealed is handed on before it is on disk."""

    async def evaluate(self: Any, polled: Any) -> None:
        outcome = await self._executor.run(self._working, lambda: self.stream.evaluate(polled))
        for event in outcome.events:
            self.stream.given(event)
            self._emit(event)
        if outcome.frames:
            await self._write(outcome.frames)

    return [(read_loop.Ingest, "_evaluate", evaluate)]


def no_frames_said_again() -> list[Patch]:
    """A restart says nothing of what is sealed."""
    original = jobs.LocalJob.recover

    def recover(self: Any, frames: Any) -> list[Any]:
        original(self, frames)
        return []

    return [(jobs.LocalJob, "recover", recover)]


def effects_do_not_wait() -> list[Patch]:
    """What follows a write does not wait for it."""
    original = effects.Outbox._drain

    def drain(self: Any) -> None:
        self._stored.set()
        original(self)

    return [(effects.Outbox, "_drain", drain)]


def write_in_place() -> list[Patch]:
    """State is written over what was there."""

    def write(self: Any, name: str, data: bytes) -> None:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)

    return [(storage.DiskStorage, "write", write)]


def failed_sync_ignored() -> list[Patch]:
    """A sync that fails is taken for one that does not."""
    original = storage.DiskFile.sync

    def sync(self: Any) -> None:
        with contextlib.suppress(StorageError):
            original(self)

    return [(storage.DiskFile, "sync", sync)]
