"""What stands between a decided interval and its publication, and what closing asks of the master.

Owns the shapes, and what the record of an interval says; `master_close` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from elfmesh.control.manifest import Manifest
from elfmesh.control.records import ResultRecord, State, counts_dict
from elfmesh.srt.coverage import bitmap_of


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


About = tuple[int, State, int, int, tuple[int | None, int | None]]
"""Of one interval: its index, how it ends, the revision, the epoch, and its window in microseconds UTC."""


def make_record(
    manifest: Manifest,
    about: About,
    required: int,
    missing: int,
    names: list[str],
    fidelity: float,
    counts: tuple[int, ...],
    outside: int,
) -> ResultRecord:
    """The record of an interval that needs the members `required` and lacks `missing`, called `names`.

    `outside` are all numbers that are not inside, also of agents that are not expected.
    """
    index, state, rev, epoch, (start_us, end_us) = about
    expected, absent = required.bit_count(), missing.bit_count()
    return ResultRecord(
        job=manifest.qualified,
        index=index,
        start_us=start_us,
        end_us=end_us,
        state=state,
        rev=rev,
        completeness=(expected - absent) / expected,
        fidelity=fidelity,
        agents_in=expected - absent,
        agents_expected=expected,
        missing=names,
        version=manifest.version,
        epoch=epoch,
        counts=counts_dict(counts),
        absent=bitmap_of(outside),
    )
