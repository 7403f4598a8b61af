"""Effect and event of the last step of an interval at its master, which a thread executes.

`events` exports them with all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class Finalise(Effect):
    """Merge an interval's payloads (per partition) and evaluate the query's final part, in a thread.

    Attributes:
        open: sessions that are open before the interval, which its records continue; None: the query has no
            sessions.
        completeness: completeness of the interval.
        inputs: (input, start, rows) of the results of other jobs: without `parts` the only input, with
            `parts` the side inputs.
    """

    job: bytes
    epoch: int
    manifest: Manifest
    interval: int
    parts: tuple[tuple[bytes, ...], ...]
    rev: int = 1
    open: bytes | None = None
    completeness: float = 1.0
    inputs: tuple[tuple[str, int, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Finalised(Event):
    """The rows of an interval as an Arrow IPC stream, or an error.

    Attributes:
        pages: pages of the rows, if they are too large for the record; `rows` is then their table.
        open: sessions that are open after the interval.
        completeness: lowest completeness of the intervals that may have records of the ended sessions.
        counts: counts of records, if there were `inputs`.
    """

    job: bytes
    epoch: int
    interval: int
    rows: bytes = b""
    error: str = ""
    rev: int = 1
    open: bytes = b""
    completeness: float = 1.0
    counts: tuple[int, ...] = ()
    pages: tuple[bytes, ...] = ()
