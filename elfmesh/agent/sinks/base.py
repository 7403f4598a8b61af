"""Common types of sinks, which receive the results of a job in order and store their own position.

A sink stores the position together with the rows, so that no record is lost or written twice. All intervals
below a position are written, declared lost, or never existed. A terminal record is written once. No record
with an epoch below that of the last terminal record is written. See guarantees D-5, D-17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from elfmesh.api.line_parts import OPEN_STATES
from elfmesh.control.jobs.records import ResultRecord, to_json
from elfmesh.errors import RemoteError
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_to_table

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.control.jobs import spark_types
else:
    pa = lazy_module("pyarrow")
    spark_types = lazy_module("elfmesh.control.jobs.spark_types")


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,140}")


@dataclass(frozen=True, slots=True)
class LogName:
    """Name of a results log: a job ("namespace/name") and its incarnation.

    Both come from another agent and become names of directories and keys. Raises Unavailable if they
    contain characters other than letters, digits, `_` and `-`.
    """

    job: str
    incarnation: str

    def __post_init__(self) -> None:
        plain = f"{self.job}/{self.incarnation}"
        if plain.count("/") != 2 or not all(map(_PLAIN.fullmatch, plain.split("/"))):
            raise Unavailable(f"{plain[:200]!r} is not a valid name for the results of a job")


class Position(msgspec.Struct, frozen=True):
    """Position of a sink: the first interval that it lacks, and the epoch of its last terminal record."""

    next: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class SinkItem:
    """A record and its rows (Arrow IPC, b"" for none). `parts` is the number of pages of its rows."""

    record: ResultRecord
    rows: bytes
    parts: int = 1

    @property
    def terminal(self) -> bool:
        return self.record.state not in OPEN_STATES

    @property
    def order(self) -> tuple[int, int]:
        """Epoch and revision. Of two records of an interval, the one with the higher order is valid."""
        return self.record.epoch, self.record.rev

    def shown(self, log: LogName) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of the record: one, or one per page of its rows, with `part` and `parts`."""
        whole = ipc_to_table(self.rows)
        batches = [] if self.parts == 1 else whole.to_batches()
        for number, table in enumerate([pa.Table.from_batches([each]) for each in batches] or [whole], 1):
            yield to_json(self.record, table, (number, self.parts)) | {"incarnation": log.incarnation}

    def table(self) -> pa.Table:
        """Return the rows as the Spark source does: the columns of the interval, then those of the query.

        Raises:
            RecordRefused: two columns have the same name, or a value does not fit its column.
        """
        table = ipc_to_table(self.rows)
        schema = spark_types.row_schema(table.schema)
        names = [name.lower() for name in schema.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise RecordRefused(f"two columns are called {twice[0]!r}: rename the query's with AS")
        try:
            return spark_types.result_rows(self.record, table, schema)
        except pa.ArrowException as error:
            raise RecordRefused(f"a value does not fit its column: {error}") from None


@dataclass(frozen=True, slots=True)
class LostIntervals:
    """Intervals `first` to `last`, which a sink will never have, and the reason."""

    first: int
    last: int
    why: str


class RecordRefused(RemoteError):
    """Raised if the sink will never accept this record. It may accept the next one."""


class RecordFenced(RemoteError):
    """Raised for a record of a master that was replaced (D-5)."""


class Unavailable(RemoteError):
    """Raised if the sink can accept nothing at the moment."""


class Sink(Protocol):
    """Interface of sinks. Calls for one log are sequential; calls for different logs are concurrent."""

    async def position(self, log: LogName) -> Position | None:
        """Return the position, or None if the sink has nothing of this log. Raises Unavailable."""
        ...

    async def write(self, log: LogName, item: SinkItem) -> bool:
        """Store a record and advance the position. Both are durable on return.

        Returns False if the sink already has this record, or a later one of its interval.

        Raises:
            RecordRefused: the record cannot be stored.
            RecordFenced: the record must not be stored.
            Unavailable: nothing was stored, or the outcome is unknown; the caller tries again.
        """
        ...

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Record lost intervals and advance the position. Durable on return. Raises Unavailable."""
        ...

    def ended(self, log: LogName) -> None:
        """Called when the job is deleted. Written results stay."""
        ...

    async def close(self) -> None: ...

    def describe(self) -> Mapping[str, Any]: ...


def admit(position: Position | None, shown: tuple[int, int] | None, item: SinkItem) -> bool:
    """Whether a sink needs a record.

    `shown` is the `SinkItem.order` of the record of this interval that the sink has and may replace. Raises
    RecordFenced, because the epochs of terminal records never decrease.
    """
    record = item.record
    if position is not None:
        if record.index < position.next:
            return False
        if record.epoch < position.epoch:
            raise RecordFenced(f"interval {record.index} is of epoch {record.epoch}, after {position.epoch}")
    if item.terminal or shown is None:
        return True
    if record.epoch < shown[0]:
        raise RecordFenced(f"interval {record.index} is of epoch {record.epoch}, after {shown[0]}")
    return item.order > shown


def behind(position: Position | None, item: SinkItem) -> Position | None:
    if not item.terminal:
        return position
    return Position(item.record.index + 1, item.record.epoch)


def past(position: Position | None, lost: LostIntervals) -> Position:
    known = position or Position(lost.first)
    return Position(max(known.next, lost.last + 1), known.epoch)
