"""Reader of several streams for one job, under one watermark.

Such a job has its own cursor in each stream and shares no reading or parsing with other jobs. Every block and
every position names its stream; a position is routed to the reader of its stream.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import msgspec

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.sources import BlockDelivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ingest.stream_settings import StreamConfig
from elfmesh.ingest.worker.reader import Reader
from elfmesh.ql.engine.block import Times


class MultiStreamReader:
    """`Reader` that combines the readers of several streams."""

    def __init__(
        self,
        readers: Mapping[str, Reader],
        read_from: Mapping[str, Literal["beginning", "end"]],
        columns_of: Callable[[str], Iterable[str]],
        wanted_of: Callable[[str], WantedTimes | None] = lambda _stream: None,
    ) -> None:
        self._readers, self._read_from = readers, read_from
        self._columns_of, self._wanted_of = columns_of, wanted_of

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: Literal["beginning", "end", "resume"] = "beginning",
        boundaries: Iterable[FilePosition] = (),
        wanted: WantedTimes | None = None,
    ) -> None:
        """Read for a job; each stream has its own columns and wanted times."""
        given, edges = list(positions), list(boundaries)
        for name, reader in self._readers.items():
            reader.add(
                job,
                self._columns_of(name),
                positions=_own(given, name),
                read_from="resume" if read_from == "resume" else self._read_from[name],
                boundaries=_own(edges, name),
                wanted=self._wanted_of(name),
            )

    def remove(self, job: str) -> None:
        for reader in self._readers.values():
            reader.remove(job)

    def poll(self, bytes_max: int = POLL_BYTES) -> list[BlockDelivery]:
        deliveries = []
        for name, reader in self._readers.items():
            for delivery in reader.poll(bytes_max):
                block = delivery.block
                position = None if block.position is None else _tagged(block.position, name)
                tagged = msgspec.structs.replace(block, position=position, stream=name)
                deliveries.append(replace(delivery, block=tagged))
        return deliveries

    def note(self, delivery: BlockDelivery, dated: Mapping[str, Times]) -> None:
        if delivery.block.stream is not None:
            self._readers[delivery.block.stream].note(delivery, dated)

    def look(self) -> None:
        for reader in self._readers.values():
            reader.look()

    def sources(self, job: str) -> list[SourceState]:
        return [state for reader in self._readers.values() for state in reader.sources(job)]

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        found = [(name, reader.positions(job)) for name, reader in self._readers.items()]
        return tuple(_tagged(position, name) for name, positions in found for position in positions)

    def gaps(self, job: str) -> Sequence[Gap]:
        return [gap for reader in self._readers.values() for gap in reader.gaps(job)]

    def problems(self) -> dict[str, str]:
        return {path: why for reader in self._readers.values() for path, why in reader.problems().items()}

    def close(self) -> None:
        for reader in self._readers.values():
            reader.close()


def check_apart(sources: Collection[SourceState]) -> None:
    """Raise if two streams of a job contain the same file, because its positions would be ambiguous."""
    if len({state.id for state in sources}) < len(sources):
        raise RuntimeFailure(
            "two streams of this job have a file in common",
            hint="Read it as one stream, or give the streams paths that share no file.",
        )


def together(configs: Sequence[StreamConfig]) -> StreamConfig:
    return msgspec.structs.replace(
        configs[0],
        path=", ".join(config.path for config in configs),
        format=", ".join(config.format for config in configs),
        idle=max(configs, key=lambda config: config.idle_us).idle,
        on_overload="wait" if any(config.on_overload == "wait" for config in configs) else "shed",
    )


def _tagged(position: FilePosition, stream: str) -> FilePosition:
    return msgspec.structs.replace(position, stream=stream)


def _own(positions: Sequence[FilePosition], stream: str) -> list[FilePosition]:
    return [_tagged(position, "") for position in positions if position.stream == stream]
