"""Interface of readers for streams: files, a log in memory, or several readers together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, Protocol, TypeAlias

from elfmesh.ingest.sources import BlockDelivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.blocks import POLL_BYTES
from elfmesh.ingest.sources.time_index import WantedTimes
from elfmesh.ql.engine.block import Times

ReadFrom: TypeAlias = Literal["beginning", "end", "resume"]


class Reader(Protocol):
    """Reader of a stream: `sources.StreamReader`, or a log in memory in the simulator."""

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: ReadFrom = "beginning",
        boundaries: Iterable[FilePosition] = (),
        wanted: WantedTimes | None = None,
    ) -> None: ...

    def remove(self, job: str) -> None: ...

    def poll(self, bytes_max: int = POLL_BYTES) -> list[BlockDelivery]: ...

    def note(self, delivery: BlockDelivery, dated: Mapping[str, Times]) -> None:
        """Note the event times of a block by column, for readers of a range of times."""
        ...

    def look(self) -> None: ...

    def sources(self, job: str) -> list[SourceState]: ...

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        """Return the positions of the job's next records, and the known files that are closed."""
        ...

    def gaps(self, job: str) -> Sequence[Gap]:
        """Return the losses of the job (D-1's source_gap) since the last call."""
        ...

    def problems(self) -> dict[str, str]:
        """Return the paths that cannot be read, with the reasons."""
        ...

    def close(self) -> None: ...
