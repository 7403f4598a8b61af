"""The archives of one agent, each in its own thread, so that a slow one does not delay the others.

A disk that is full or fails stops an archive, but no job. The agent reports the failure and tries again.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from elfmesh.errors import ElfError, RuntimeFailure
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker_thread import WorkerThread
from elfmesh.lazy import lazy_module
from elfmesh.storage.starving import is_lack

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.agent.archive.archive import Archive
    from elfmesh.ingest.parsers import StreamFormat
else:
    pa = lazy_module("pyarrow")

log = logging.getLogger("elf.archive")
LOOK_S = 0.5
AGAIN_S = 5.0
"""Pause after a failed disk operation."""


@dataclass(slots=True)
class _Running:
    archive: Archive
    thread: WorkerThread
    problem: str = ""
    failures: int = 0
    task: asyncio.Task[None] | None = field(default=None)


class Archives:
    """All archives of one agent. Streams that are not files are archived from the files of their spools.

    `look_s` is the polling period of a stream without new lines.
    """

    def __init__(
        self,
        streams: Mapping[str, StreamConfig],
        open_format: Callable[[str, StreamConfig], StreamFormat],
        directory: Path,
        host: str,
        *,
        look_s: float = LOOK_S,
        again_s: float = AGAIN_S,
    ) -> None:
        self._look_s, self._again_s = look_s, again_s
        self._running: dict[str, _Running] = {}
        try:
            for name, stream in streams.items():
                if stream.archive is not None:
                    archive = open_archive(name, stream, open_format, directory, host)
                    self._running[name] = _Running(archive, WorkerThread(f"archive-{name}"))
        except ElfError:
            for each in self._running.values():
                each.thread.close(each.archive.close)
            raise

    def start(self) -> None:
        for name, each in self._running.items():
            each.task = asyncio.get_running_loop().create_task(self._follow(name, each))

    async def close(self) -> None:
        """Stop all archives. Lines that are not written yet will be read again. May be repeated."""
        tasks = [each.task for each in self._running.values() if each.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for each in self._running.values():
            each.thread.close(each.archive.close)
        self._running = {}

    def describe(self) -> dict[str, Any]:
        return {
            name: {**each.archive.describe(), "failures": each.failures, "problem": each.problem}
            for name, each in self._running.items()
        }

    def problems(self) -> dict[str, str]:
        """Return the problem of each archive that cannot write, by "archive STREAM"."""
        return {f"archive {name}": each.problem for name, each in self._running.items() if each.problem}

    def positions(self) -> list[tuple[FilePosition, ...]]:
        return [each.archive.positions for each in self._running.values()]

    async def _follow(self, name: str, each: _Running) -> None:
        while True:
            try:
                taken = await each.thread.run(each.archive.step)
            except Exception as error:  # no archive ends without a word
                expected = isinstance(error, (OSError, ElfError, pa.ArrowException)) or is_lack(error)
                reason = (
                    os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
                ) or type(error).__name__
                if reason != each.problem:
                    where = (name, each.archive.directory, reason)
                    log.warning("archive of %s waits: %s: %s", *where, exc_info=None if expected else error)
                each.problem, each.failures = reason, each.failures + 1
                await asyncio.sleep(self._again_s)
                continue
            if each.problem:
                log.info("archive of %s continues", name)
                each.problem = ""
            if taken < POLL_BYTES:
                await asyncio.sleep(self._look_s)


def open_archive(
    name: str,
    stream: StreamConfig,
    open_format: Callable[[str, StreamConfig], StreamFormat],
    directory: Path,
    host: str,
) -> Archive:
    """Open the archive of a stream as its settings specify. Raises ElfError if that fails."""
    from elfmesh.agent.archive.archive import Archive

    assert stream.archive is not None, "the stream has one"
    formats = open_format(name, stream)
    try:
        return Archive(
            name, stream.path, formats, stream.archive,
            directory=directory, host=host, read_from=stream.read_from,
        )  # fmt: skip
    except OSError as error:
        where = f"streams.{name}.archive"
        raise RuntimeFailure(f"{stream.archive.path or directory}: {error.strerror}", where=where) from None
