"""What a job's stream asks of who reads its sources: files, a log in memory, or several of them together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from elfmesh.ingest.sources import Delivery, FilePosition, Gap, SourceState
from elfmesh.ingest.sources.blocks import POLL_BYTES


class Reader(Protocol):
    """What `sources.StreamReader` offers; in simulation a log in memory offers the same."""

    def add(
        self,
        job: str,
        columns: Iterable[str],
        *,
        positions: Iterable[FilePosition] = (),
        read_from: Literal["beginning", "end", "resume"] = "beginning",
        boundaries: Iterable[FilePosition] = (),
    ) -> None: ...

    def remove(self, job: str) -> None: ...

    def poll(self, bytes_max: int = POLL_BYTES) -> list[Delivery]: ...

    def look(self) -> None: ...

    def sources(self, job: str) -> list[SourceState]: ...

    def positions(self, job: str) -> tuple[FilePosition, ...]:
        """Where the job's next records come from, and what must be known of closed files."""
        ...

    def gaps(self, job: str) -> Sequence[Gap]:
        """What was lost to the job (D-1's source_gap) since the last call."""
        ...

    def problems(self) -> dict[str, str]:
        """Paths that cannot be read, and why."""
        ...

    def close(self) -> None: ...
