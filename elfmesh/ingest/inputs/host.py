"""Inputs of one agent: the receivers and spools of streams that are not files.

The readers of these streams are notified of input that was lost before it could be spooled.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from elfmesh.errors import RuntimeFailure, Unreachable, UsageError
from elfmesh.ingest.host import Executor
from elfmesh.ingest.inputs.address import Address, parse_listen
from elfmesh.ingest.inputs.inserts import Inserts
from elfmesh.ingest.inputs.journal import Journal
from elfmesh.ingest.inputs.network import Connections, Datagrams, open_socket
from elfmesh.ingest.inputs.spool import FILE_NAME, Spool
from elfmesh.ingest.inputs.writer import SpoolWriter
from elfmesh.ingest.sources import FilePosition
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.storage.framelog import FrameLog

if TYPE_CHECKING:
    from elfmesh.ingest.parsers import StreamFormat
    from elfmesh.ingest.sources import StreamReader
    from elfmesh.ingest.sources.stream_times import StreamTimes

LOOK_S = 1.0
"""Interval at which the kernel's counters of dropped input are read."""


class Receiver(Protocol):
    """Receives lines and writes them to a spool."""

    def look(self) -> None: ...

    async def close(self) -> None: ...


def _is_input(config: StreamConfig) -> bool:
    return bool(config.listen) or config.journal is not None or config.kafka is not None


def _spooled(name: str, config: StreamConfig, directory: Path) -> StreamConfig:
    if not _is_input(config):
        return config
    path = str(directory / name / FILE_NAME)
    if config.listen.startswith(("otlp:", "otlp-grpc:")):
        return msgspec.structs.replace(config, path=path, format="json")
    return msgspec.structs.replace(config, path=path)


class Inputs:
    """Receivers and spools of one agent.

    Attributes:
        streams: configurations for the readers; a stream that is not a file has the files of its spool.
        others: the positions from which other readers than jobs would read after a restart.
    """

    def __init__(self, streams: Mapping[str, StreamConfig], directory: Path, executor: Executor) -> None:
        self.streams = {name: _spooled(name, config, directory) for name, config in streams.items()}
        self.others: Callable[[], list[tuple[FilePosition, ...]]] = list
        self._posts: Callable[[], list[tuple[FilePosition, ...]]] = list
        self._executor = executor
        self._frames: FrameLog | None = None
        self._closed = False
        self._receivers: dict[str, Receiver] = {}
        self._configs = {name: config for name, config in streams.items() if _is_input(config)}
        self._sockets: dict[str, tuple[Address, socket.socket]] = {}
        self._programs: dict[str, str] = {}
        self._notified: set[str] = set()  # streams whose losses were reported
        self._writers: dict[str, SpoolWriter] = {}
        self._lookup_task: asyncio.Task[None] | None = None
        with contextlib.ExitStack() as stack:
            for name, config in self._configs.items():
                if config.listen:
                    address = parse_listen(config.listen, where=f"streams.{name}.listen")
                    if address.scheme == "program":
                        self._programs[name] = address.path
                        continue
                    self._sockets[name] = address, stack.enter_context(_bound(name, config.listen, address))
            for name, config in self._configs.items():
                try:
                    positioned = name in self._programs
                    spool = Spool(directory / name, config.spool_bytes, positioned=positioned)
                except OSError as error:
                    where = str(directory / name)
                    raise RuntimeFailure(error.strerror or str(error), where=where) from None
                self._writers[name] = SpoolWriter(name, spool, executor, self._restarts)
            stack.pop_all()

    async def start(
        self, frames: FrameLog, posts: Callable[[], list[tuple[FilePosition, ...]]] = list
    ) -> None:
        """Receive; `posts` are the positions of the readers for ordered topics."""
        self._frames, self._posts = frames, posts
        for name, writer in self._writers.items():
            self._receivers[name] = await self._receiver(name, writer)
        self._lookup_task = asyncio.get_running_loop().create_task(self._look())

    async def close(self) -> None:
        """Stop receiving; acknowledged input is durable. May be called repeatedly."""
        if self._closed:
            return
        self._closed = True
        if self._lookup_task is not None:
            self._lookup_task.cancel()
            await asyncio.gather(self._lookup_task, return_exceptions=True)
        for receiver in self._receivers.values():
            await receiver.close()
        for name, (address, sock) in self._sockets.items():
            if name not in self._receivers:
                sock.close()
            if address.path:
                _remove(address.path)
        for writer in self._writers.values():
            await writer.close()

    def reader(
        self,
        name: str,
        config: StreamConfig,
        formats: StreamFormat,
        *,
        for_jobs: bool = False,
        times: StreamTimes | None = None,
    ) -> StreamReader:
        """Return the reader of a stream, of files or of a spool.

        It reports losses from now on. The first reader for jobs reports all losses since the agent's start,
        because its job may continue after a restart.
        """
        from elfmesh.ingest.sources import StreamReader

        if name not in self._writers:
            return StreamReader(config.path, formats, times=times)
        from elfmesh.ingest.inputs.spool_reader import SpoolReader

        counters = self._writers[name].counters
        notified = 0 if for_jobs and name not in self._notified else counters.lost
        if for_jobs:
            self._notified.add(name)
        path = self._writers[name].spool.path

        def awaited() -> bool:
            receiver = self._receivers.get(name)
            return isinstance(receiver, Inserts) and receiver.times.waiting > 0

        return SpoolReader(config.path, formats, lambda: counters.lost, notified, path, awaited, times=times)

    def describe(self) -> dict[str, Any]:
        """Return, for display, the address of each input, what it received, and why it waits."""
        found = {}
        for name, writer in self._writers.items():
            config = self._configs[name]
            spool = {"spool_bytes": writer.spool.nbytes, "spool_bytes_max": config.spool_bytes}
            found[name] = {**_origin(config), **asdict(writer.counters), **spool}
        return found

    def inserts(self, program: str, stream: str | None) -> Inserts:
        """Return where a program may insert: the stream of this name, or the only one.

        Raises UsageError if there is none, and Unreachable before `start`.
        """
        found = {
            name: receiver
            for name, receiver in self._receivers.items()
            if isinstance(receiver, Inserts) and receiver.program == program and stream in (None, name)
        }
        if len(found) == 1:
            return next(iter(found.values()))
        if found:
            names = ", ".join(sorted(found))
            raise UsageError(f"{program} may insert into several streams", hint=f"Name one of {names}.")
        if self._lookup_task is None:
            raise Unreachable("the agent starts, and receives no inserts yet")
        what = "no stream" if stream is None else f"no stream {stream!r}"
        hint = f"Give the agent one: --stream NAME=program://{program},format=json."
        raise UsageError(f"this agent has {what} that {program} may insert into", hint=hint)

    async def _receiver(self, name: str, writer: SpoolWriter) -> Receiver:
        config = self._configs[name]
        if name in self._programs:
            return Inserts(self._programs[name], writer)
        if config.kafka is not None:
            from elfmesh.ingest.inputs.kafka import KafkaMessages

            return KafkaMessages(writer, config.kafka, from_end=config.read_from == "end")
        if name not in self._sockets:
            return Journal(writer, config.journal or (), from_end=config.read_from == "end")
        address, sock = self._sockets[name]
        if address.scheme in ("udp", "unix"):
            return Datagrams(sock, writer)
        if address.scheme in ("http", "otlp"):
            from elfmesh.ingest.inputs.http import PlainLines, Posts
            from elfmesh.ingest.inputs.otlp import Otlp

            posts = Posts(writer, Otlp() if address.scheme == "otlp" else PlainLines())
            await posts.start(sock)
            return posts
        if address.scheme == "otlp-grpc":
            from elfmesh.ingest.inputs.otlp_grpc import LogsService

            service = LogsService(writer)
            await service.start(sock)
            return service
        connections = Connections(writer)
        await connections.start(sock)
        return connections

    async def _restarts(self) -> list[tuple[FilePosition, ...]]:
        frames = self._frames
        if frames is None:
            return []

        def positions() -> list[tuple[FilePosition, ...]]:
            sealed = [frames.last(job) for job in frames.jobs]
            return [
                msgspec.convert(each.restart or (), tuple[FilePosition, ...])
                for each in sealed
                if each is not None
            ]

        return [*await self._executor.run("store", positions), *self.others(), *self._posts()]

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            for receiver in self._receivers.values():
                receiver.look()


def _origin(config: StreamConfig) -> dict[str, Any]:
    if config.kafka is not None:
        return {"kafka": config.kafka.topic}
    return {"listen": config.listen} if config.listen else {"journal": list(config.journal or ())}


def _remove(path: str) -> None:
    Path(path).unlink(missing_ok=True)


def _bound(name: str, text: str, address: Address) -> socket.socket:
    try:
        return open_socket(address)
    except OSError as error:
        raise RuntimeFailure(
            f"cannot listen on {text}: {error.strerror or error}",
            where=f"streams.{name}.listen",
            hint="Another process may use it; choose another address.",
        ) from None
