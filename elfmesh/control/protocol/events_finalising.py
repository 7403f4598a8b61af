"""The last step of an interval at its root, asked for and answered: it is heavy, so a thread does it.

Owns the two shapes; `events` names them with all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.control.jobs.manifest import Manifest
from elfmesh.machine import Effect, Event


@dataclass(frozen=True, slots=True)
class Finalise(Effect):
    """Merge an interval's payloads (per partition) and run the query's last steps: heavy, for a thread.

    Attributes:
        open: the sessions that are open before the interval, with `completeness` of its own: they are added
            to. None: the rows are those of the payloads alone.
        inputs: (input, start, rows) of the results of other jobs; without `parts`, all that the rows are made
            of; with them, the newest ones that stand beside the records.
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
    """The rows of an interval as an Arrow IPC stream, or why there are none.

    Attributes:
        pages: of the rows, if they are too large to travel with their record: `rows` is the table of these.
        open: the sessions that are open behind the interval.
        completeness: the least of the intervals that may have had records of the sessions among the rows.
        counts: of records, if there were `inputs`.
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
