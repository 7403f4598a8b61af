"""What every sink is: a place that takes a job's results in order and keeps its own position.

The position lies where the rows lie and moves together with them, so that nothing is lost or doubled. Below a
position everything is written, declared lost, or was never there; a terminal record is written once; nothing
of an epoch below that of the last terminal record is written. See guarantees D-5, D-17.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from elfmesh.control.jobs.records import ResultRecord, ipc_to_table, to_json
from elfmesh.errors import RemoteError
from elfmesh.lazy import lazy_module

if TYPE_CHECKING:
    import pyarrow as pa

    from elfmesh.control.jobs import spark_types
else:
    pa = lazy_module("pyarrow")
    spark_types = lazy_module("elfmesh.control.jobs.spark_types")


_PLAIN = re.compile(r"[A-Za-z0-9_-]{1,140}")


@dataclass(frozen=True, slots=True)
class LogName:
    """Whose results: a job ("namespace/name") and one numbering of its intervals.

    Both come from another agent and become names of directories and keys: Unavailable unless they are plain.
    """

    job: str
    incarnation: str

    def __post_init__(self) -> None:
        plain = f"{self.job}/{self.incarnation}"
        if plain.count("/") != 2 or not all(map(_PLAIN.fullmatch, plain.split("/"))):
            raise Unavailable(f"{plain[:200]!r} is not a valid name for the results of a job")


class Position(msgspec.Struct, frozen=True):
    """How far a sink has come: the first interval it lacks, and the epoch of its last terminal record."""

    next: int
    epoch: int = 0


@dataclass(frozen=True, slots=True)
class Item:
    """A record and its rows (Arrow IPC, b"" for none); `parts`: they came in so many pages."""

    record: ResultRecord
    rows: bytes
    parts: int = 1

    @property
    def terminal(self) -> bool:
        return self.record.state != "TENTATIVE"

    @property
    def order(self) -> tuple[int, int]:
        """Epoch and revision: of two records of an interval the higher one is right."""
        return self.record.epoch, self.record.rev

    def shown(self, log: LogName) -> Iterator[dict[str, Any]]:
        """The JSON objects of the record: one, or one for each page of its rows, with `part` and `parts`."""
        whole = ipc_to_table(self.rows)
        batches = [] if self.parts == 1 else whole.to_batches()
        for number, table in enumerate([pa.Table.from_batches([each]) for each in batches] or [whole], 1):
            yield to_json(self.record, table, (number, self.parts)) | {"incarnation": log.incarnation}

    def table(self) -> pa.Table:
        """The rows as readers of Spark get them: the interval's columns, then the query's; none: no rows.

        Refused: two columns have one name.
        """
        table = ipc_to_table(self.rows)
        schema = spark_types.row_schema(table.schema)
        names = [name.lower() for name in schema.names]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise Refused(f"two columns are called {twice[0]!r}: rename the query's with AS")
        try:
            return spark_types.result_rows(self.record, table, schema)
        except pa.ArrowException as error:
            raise Refused(f"a value does not fit its column: {error}") from None


@dataclass(frozen=True, slots=True)
class Lost:
    """Intervals `first` to `last` that a sink will never have, and why."""

    first: int
    last: int
    why: str


class Refused(RemoteError):
    """This record will never be taken as it is; the next one may."""


class Fenced(RemoteError):
    """The record is of a master that was replaced (D-5)."""


class Unavailable(RemoteError):
    """The sink cannot take anything now."""


class Sink(Protocol):
    """One place for results. Calls for one log come one at a time; those of different logs at once."""

    async def position(self, log: LogName) -> Position | None:
        """How far it has come, None if it knows nothing of this log; raises Unavailable."""
        ...

    async def write(self, log: LogName, item: Item) -> bool:
        """Take a record; durable, and the position behind it, when this returns.

        Returns False if the sink has it already, or a later one of its interval.

        Raises:
            Refused: it cannot be taken.
            Fenced: it must not be.
            Unavailable: nothing was taken, or the outcome is unknown; to be tried again.
        """
        ...

    async def declare(self, log: LogName, lost: Lost) -> None:
        """Write down what is missing and go on behind it; durable when this returns. Raises Unavailable."""
        ...

    def ended(self, log: LogName) -> None:
        """The job is gone; what was written stays."""
        ...

    async def close(self) -> None: ...

    def describe(self) -> Mapping[str, Any]: ...


def admit(position: Position | None, shown: tuple[int, int] | None, item: Item) -> bool:
    """Whether a record is news to a sink.

    `shown` is `Item.order` of what the sink has of this interval and may be replaced. Fenced: terminal
    records' epochs only grow.
    """
    record = item.record
    if position is not None:
        if record.index < position.next:
            return False
        if record.epoch < position.epoch:
            raise Fenced(f"interval {record.index} is of epoch {record.epoch}, after {position.epoch}")
    if item.terminal or shown is None:
        return True
    if record.epoch < shown[0]:
        raise Fenced(f"interval {record.index} is of epoch {record.epoch}, after {shown[0]}")
    return item.order > shown


def behind(position: Position | None, item: Item) -> Position | None:
    if not item.terminal:
        return position
    return Position(item.record.index + 1, item.record.epoch)


def past(position: Position | None, lost: Lost) -> Position:
    known = position or Position(lost.first)
    return Position(max(known.next, lost.last + 1), known.epoch)
