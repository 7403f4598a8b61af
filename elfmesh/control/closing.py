"""What stands between a decided interval and its publication, and what closing asks of the master.

Owns the shapes only; `master_close` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elfmesh.control.records import ResultRecord


@dataclass(slots=True)
class Closing:
    """An interval that is decided and not published; `rows` is None while it is being finalised."""

    record: ResultRecord
    rows: bytes | None


class Leader(Protocol):
    """What closing needs of the master around it."""

    def commit(self, record: ResultRecord, rows: bytes) -> None:
        """A record is ready to become final; `Closer.committed` says when it is."""
        ...

    def shown(self) -> None:
        """There is a new tentative record."""
        ...

    def advanced(self) -> None:
        """`closed` has grown, or nothing is in flight any more."""
        ...

    def hasten(self, stop: int) -> None:
        """Ask the trees not to wait below `stop`."""
        ...

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None:
        """Ask a tree for a range again."""
        ...

    def evicted(self) -> None:
        """The roster has lost a member."""
        ...
