"""The record of an interval, and its encodings: the JSON of the command line, and Arrow IPC bytes.

Owns the count buckets, the record of an interval and the two encodings of its rows. `elf run`, the results
log, the API and the Spark bridge use it.

Invariants: a record in the results log is terminal (D-17). Its `index` is the number of the interval
(`floor(start_us / slide_us)`). `counts` contains every bucket of `BUCKETS` (D-1).
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from elfmesh.errors import ProtocolError
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import check_plain

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


BUCKETS = (
    "contributed", "filtered", "parse_error", "late_dropped", "expired", "source_gap", "shed",
    "spool_overflow", "function_error",
)  # fmt: skip
"""Buckets in which records are counted (D-1); messages contain the counts as a list in this order.

`source_gap` counts losses and not records, because no agent has read the lost bytes. `function_error` counts
records for which a Python function of the job failed.
"""

CONTRIBUTED, FILTERED, PARSE_ERROR, LATE, EXPIRED, SOURCE_GAP, SHED, OVERFLOW, FUNCTION_ERROR = range(
    len(BUCKETS)
)
"""Position of each bucket in such a list."""

ASSUMPTION_BROKEN, BROKEN = "assumption_broken", len(BUCKETS)
"""Violations of the job's ASSUME clauses, and their position in a list of counts. A list without violations
ends before, and has the form that earlier releases know. They are no records: these are in another bucket."""

COUNTS_MAX = BROKEN + 1

BUCKETS_SHOWN = BUCKETS[:4]
"""Buckets that the JSON of a result always has; others are present if they are not zero."""

UNUSABLE = ("parse_error", "function_error")
"""Buckets of unusable records; a rollout is taken back if their share grows."""

FIRST = -(2**62)
"""Number of the interval before all others: founding members contribute from here."""

NOT_COUNTED = (0,) * len(BUCKETS)

State = Literal["TENTATIVE", "FINAL", "FINAL_PARTIAL", "SKIPPED", "EARLY"]
"""State of a record: terminal except TENTATIVE and EARLY, which is in no log."""

LOSSES = (*BUCKETS[LATE:], ASSUMPTION_BROKEN)
"""Counts that make a record unclean: its rows may depend on when and where its records were read."""

LOST = "lost"
"""Prefix of the reason of a record that replaces lost records."""

PAO = "pao"
"""The view of a result that contains its partial aggregates."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_JSON = msgspec.json.Encoder(decimal_format="number")


class Partly(msgspec.Struct, frozen=True, array_like=True):
    """Records of a missing member that a record contains: those that it had read up to `until_us`.

    A standby of the member has sent them. `number` is the member's number on the roster.
    """

    number: int
    agent: str
    until_us: int
    contributed: int
    filtered: int


class ResultRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One revision of one interval of one job, without its rows.

    Attributes:
        job: "namespace/name", or "run" for the embedded engine.
        index: number of the interval.
        start_us: start of the window in microseconds UTC; None for a query without a window.
        end_us: exclusive end of the window.
        state: state of the interval; all but TENTATIVE are terminal.
        rev: revision, 1 for the first publication; grows within an epoch.
        completeness: agents_in / agents_expected.
        fidelity: share of the expected input that is inside.
        agents_in: number of roster members whose contribution is inside.
        agents_expected: number of expected roster members.
        missing: names of the expected agents that are not inside, sorted.
        version: manifest version of all contributions.
        epoch: epoch of the master that closed the interval.
        counts: records per bucket of `BUCKETS`, and violations in ASSUMPTION_BROKEN if there are any.
        absent: bitmap of all roster numbers given so far whose contribution is not inside.
        revs: (roster number, revision) of each contribution inside that replaced an earlier one.
        partly: prefixes of missing members that are inside.
        since: first interval of the run that the record represents: all intervals lack the same agents, and
            no member inside has records for those before `index`. None: only `index`.
        open: groups that are open after the interval, while it is the newest one; logs do not store them.
        before: index of the previous record in the job's log, so that a reader notices a missing record.
            None: the record is the first one, or of an earlier release.
        reason: why there is no result; "" if there is one.
        clean: False if a record that was read is not clean, or an early row is withdrawn; see `is_clean`.
        early: of a job with EARLY, unless the record is clean: the early rows `emitted` in `epoch`.
        withdrawn: early rows of this epoch that are not among the rows, by their stable columns.
        counted: names of the agents that the rows of an EARLY line count.
        growing: columns of an EARLY line that are lower bounds.
    """

    job: str
    index: int
    start_us: int | None = None
    end_us: int | None = None
    state: State = "FINAL"
    rev: int = 1
    completeness: float = 1.0
    fidelity: float = 1.0
    agents_in: int = 1
    agents_expected: int = 1
    missing: list[str] = []
    version: int = 1
    epoch: int = 0
    counts: dict[str, int] = {}
    absent: bytes = b""
    revs: tuple[tuple[int, int], ...] = ()
    since: int | None = None
    open: bytes = b""
    before: int | None = None
    reason: str = ""
    clean: bool = True
    early: dict[str, int] = {}
    withdrawn: list[dict[str, Any]] = []
    counted: list[str] = []
    growing: list[str] = []
    partly: tuple[Partly, ...] = ()

    @property
    def is_clean(self) -> bool:
        """Whether another run over the same logs has the same rows, if its record is clean too."""
        losses = any(self.counts.get(name) for name in LOSSES)
        return self.clean and self.state == "FINAL" and self.completeness == 1.0 and not losses

    @property
    def lost(self) -> bool:
        """Whether it replaces final records that are damaged at every agent that stored them."""
        return self.state == "SKIPPED" and self.reason.startswith(LOST)

    @property
    def first(self) -> int:
        return self.index if self.since is None else self.since


def lost_record(job: str, start: int, stop: int, window: tuple[int, int] | None = None) -> ResultRecord:
    """Return the record that replaces the lost records of the intervals [start, stop) in a log.

    Args:
        job: "namespace/name".
        start: first interval.
        stop: one past the last interval.
        window: window of the last interval in microseconds UTC, if it is known.
    """
    index = stop - 1
    start_us, end_us = window or (None, None)
    return ResultRecord(
        job=job, index=index, start_us=start_us, end_us=end_us, state="SKIPPED", completeness=0.0,
        fidelity=0.0, agents_in=0, agents_expected=0, since=None if start in (index, FIRST) else start,
        reason=f"{LOST}: damaged on disk, and no agent that votes on the job has it",
    )  # fmt: skip


def counts_dict(counts: Sequence[int]) -> dict[str, int]:
    """Return counts by name of bucket, from the list form of messages."""
    names = (*BUCKETS, ASSUMPTION_BROKEN)[: max(BROKEN, len(counts))]
    return dict(zip(names, counts, strict=True))


def counts_list(counts: Mapping[str, int]) -> tuple[int, ...]:
    """Return the list form of counts; the inverse of `counts_dict`."""
    broken = counts.get(ASSUMPTION_BROKEN)
    return (*(counts.get(name, 0) for name in BUCKETS), *([broken] if broken else []))


def add_counts(parts: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return the sum of lists of counts."""
    total = [0] * COUNTS_MAX
    for part in parts:
        for at, value in enumerate(part):
            total[at] += value
    return tuple(total if total[BROKEN] else total[:BROKEN])


def with_late(counts: Mapping[str, int], late: int) -> dict[str, int]:
    """Return counts with contributed records that turned out to be late.

    Members count a record before the root knows that its group has ended.
    """
    moved = {"contributed": -late, "late_dropped": late} if late else {}
    return {**counts, **{name: counts[name] + change for name, change in moved.items()}}


def with_broken(counts: Mapping[str, int], broken: int) -> dict[str, int]:
    """Return counts with violations of ASSUME that the root has found."""
    return {**counts, **({ASSUMPTION_BROKEN: counts.get(ASSUMPTION_BROKEN, 0) + broken} if broken else {})}


def iso_us(us: int | None) -> str | None:
    """Return a time in ISO format, "2015-05-17T10:05:00Z", with a fraction only if it is not zero."""
    if us is None:
        return None
    try:
        moment = _EPOCH + timedelta(microseconds=us)
    except OverflowError:  # a year outside 1..9999 has no ISO format
        return str(us)
    fraction = us % 1_000_000
    text = moment.strftime("%Y-%m-%dT%H:%M:%S") if moment.year > 999 else moment.isoformat()[:19]
    if fraction == 0:
        return text + "Z"
    return f"{text}.{fraction // 1000:03}Z" if fraction % 1000 == 0 else f"{text}.{fraction:06}Z"


def to_json(record: ResultRecord, table: pa.Table, part: tuple[int, int] = (1, 1)) -> dict[str, Any]:
    """Return the JSON object of one interval that the commands print; `encode_json` makes it a line.

    `part` is the number of the page of rows in the table, from 1, and the number of pages.
    """
    counts = {
        name: record.counts.get(name, 0)
        for name in (*BUCKETS, ASSUMPTION_BROKEN)
        if name in BUCKETS_SHOWN or record.counts.get(name)
    }
    agents: dict[str, Any] = {"in": record.agents_in, "expected": record.agents_expected}
    interval = {"index": record.index, "start": iso_us(record.start_us), "end": iso_us(record.end_us)}
    if record.since is not None:
        interval["since"] = None if record.since <= FIRST else record.since
    head = {"job": record.job, "interval": interval, "state": record.state, "rev": record.rev}
    if record.state == "EARLY":
        about = {"version": record.version, "epoch": record.epoch, "growing": list(record.growing)}
        return (
            head | {"agents": agents | {"from": list(record.counted)}} | about | {"rows": rows_to_json(table)}
        )
    return {
        **head,
        "completeness": record.completeness,
        "fidelity": record.fidelity,
        "agents": agents | {"missing": list(record.missing)} | _partly(record),
        "version": record.version,
        "counts": counts,
        **({"reason": record.reason} if record.reason else {}),
        **({"clean": False, "early": dict(record.early)} if record.early else {}),
        **({"withdrawn": list(record.withdrawn)} if record.withdrawn else {}),
        **({"part": part[0], "parts": part[1]} if part[1] > 1 else {}),
        "rows": rows_to_json(table),
    }


def _partly(record: ResultRecord) -> dict[str, Any]:
    if not record.partly:
        return {}
    found = [
        {"agent": each.agent, "until": iso_us(each.until_us), "records": each.contributed + each.filtered}
        for each in record.partly
    ]
    return {"partly": found}


def encode_json(value: object) -> bytes:
    """Return the JSON text of plain values; decimals are written as numbers, without loss."""
    return _JSON.encode(value)


def rows_to_json(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows as plain values for `encode_json`.

    Integers and decimals keep their types, times are ISO text, null is None. NaN and the infinities, which
    JSON lacks, are the strings that Spark's to_json writes.

    Cost: one Python object per value, which suits results and not records of logs.
    """
    names = table.column_names
    columns = [_column_values(column) for column in table.columns]
    if not columns:
        return [{} for _ in range(table.num_rows)]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]


def _column_values(column: pa.ChunkedArray) -> list[Any]:
    kind = column.type
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
        return [iso_us(value) for value in micros.to_pylist()]
    values: list[Any] = column.to_pylist()
    if (
        pa.types.is_integer(kind)
        or pa.types.is_string(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        return values
    if holds_map(kind):
        values = [_keyed(value, kind) for value in values]
    return [_plain(value) for value in values]


def holds_map(kind: pa.DataType) -> bool:
    if pa.types.is_map(kind):
        return True
    return pa.types.is_nested(kind) and any(holds_map(kind.field(at).type) for at in range(kind.num_fields))


def _keyed(value: Any, kind: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        return {str(_plain(key)): _keyed(item, kind.item_type) for key, item in value}
    if pa.types.is_struct(kind):
        return {field.name: _keyed(value[field.name], field.type) for field in kind}
    return [_keyed(each, kind.value_type) for each in value] if pa.types.is_nested(kind) else value


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if math.isfinite(value):
            return value
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return iso_us((moment - _EPOCH) // timedelta(microseconds=1))
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value // timedelta(microseconds=1)
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def table_to_ipc(table: pa.Table) -> bytes:
    """Return the rows of a result as one Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_write_options()) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


@cache
def _write_options() -> pa.ipc.IpcWriteOptions:
    return pa.ipc.IpcWriteOptions()


def ipc_to_table(data: bytes) -> pa.Table:
    """Return the rows of one Arrow IPC stream; b"" is a table without columns.

    Raises:
        ProtocolError: the data is no Arrow IPC stream, has inconsistent buffers, or is compressed
            (`plain_ipc`).
    """
    if not data:
        return pa.table({})
    try:
        check_plain(data)
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            table = reader.read_all()
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProtocolError(f"malformed Arrow stream: {error}") from None
    return table


def ipc_schema(data: bytes) -> pa.Schema:
    """Return the schema of an Arrow IPC stream. Cost: its first message.

    Raises:
        ProtocolError: the data is no Arrow IPC stream.
    """
    try:
        with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
            return reader.schema
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ProtocolError(f"malformed Arrow stream: {error}") from None
