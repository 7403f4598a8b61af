"""Sink for the agent's `/metrics`: the newest interval of each job as samples.

  elf_result_hits{elf_sink="shown", elf_job="shop/top", path="/"} 91

Numeric columns are values, the others are labels. The last result is kept in memory only; after a restart the
sink receives the newest interval again. No two samples of a name have the same labels, and a job has at most
`series_max` samples; the sink counts the others.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from elfmesh.agent.sinks.base import LogName, LostIntervals, Position, SinkItem
from elfmesh.agent.sinks.config import PrometheusSink
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")


VALUE_CHARACTERS_MAX = 1024
"""Maximum length of a label. A longer value is log text rather than a name."""

OWN_LABELS = ("elf_sink", "elf_job")
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_]")


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample; `name` has no prefix."""

    name: str
    labels: dict[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Shown:
    """The newest result of a job."""

    log: LogName
    record: ResultRecord
    samples: tuple[Sample, ...]
    left_out: int


class LastResults:
    """Sink for the newest results."""

    def __init__(self, name: str, config: PrometheusSink) -> None:
        self.name, self._config = name, config
        self._shown: dict[LogName, Shown] = {}

    @property
    def shown(self) -> list[Shown]:
        return list(self._shown.values())

    async def position(self, log: LogName) -> Position | None:
        return None

    async def write(self, log: LogName, item: SinkItem) -> bool:
        known = self._shown.get(log)
        if known is not None and known.record.index >= item.record.index:
            return False
        samples, left_out = await asyncio.to_thread(samples_of, item, self._config)
        self._shown[log] = Shown(log, item.record, samples, left_out)
        return True

    async def declare(self, log: LogName, lost: LostIntervals) -> None:
        """Ignored, because only the newest result counts."""

    def ended(self, log: LogName) -> None:
        self._shown.pop(log, None)

    async def close(self) -> None: ...

    def describe(self) -> Mapping[str, Any]:
        """Describe the number of samples, and of those left out. Thread-safe."""
        shown = self.shown
        return {
            "series": sum(len(each.samples) for each in shown),
            "series_left_out": sum(each.left_out for each in shown),
        }


def samples_of(item: SinkItem, config: PrometheusSink) -> tuple[tuple[Sample, ...], int]:
    """Return the samples of a result and the number of those left out. Cost: one step per sample."""
    table = ipc_to_table(item.rows)
    numbers = [name for name in table.column_names if _is_value(table, name, config)]
    texts = [name for name in table.column_names if name not in numbers and _is_label(table, name)]
    names, labels = label_names(numbers, ()), label_names(texts, OWN_LABELS)
    whole = table.num_rows * len(numbers)
    found: list[Sample] = []
    for row in _rows(table, numbers, texts, config.series_max):
        shown = {labels[name]: _text(row[name]) for name in texts}
        if any(len(value) > VALUE_CHARACTERS_MAX for value in shown.values()):
            continue
        found += [Sample(names[name], shown, float(row[name])) for name in numbers if row[name] is not None]
    unique = {(each.name, tuple(each.labels.items())): each for each in reversed(found)}
    kept = tuple(reversed(unique.values()))[: config.series_max]
    nulls = sum(table.column(name).null_count for name in numbers)
    return kept, max(0, whole - nulls - len(kept))


def _rows(table: pa.Table, numbers: list[str], texts: list[str], most: int) -> Iterator[dict[str, Any]]:
    """Yield plain values. Times are seconds since 1970."""
    head = table.slice(0, most).select([*numbers, *texts])
    for name in numbers:
        column = head.column(name)
        if pa.types.is_timestamp(column.type):
            micros = column.cast(pa.timestamp("us", column.type.tz), safe=False).cast(pa.int64())
            seconds = [None if value is None else value / 1e6 for value in micros.to_pylist()]
            head = head.set_column(head.column_names.index(name), name, pa.array(seconds, pa.float64()))
    yield from rows_to_json(head)


def _is_value(table: pa.Table, name: str, config: PrometheusSink) -> bool:
    kind = table.schema.field(name).type
    types = pa.types
    number = types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind)
    return (number or types.is_timestamp(kind)) and name not in config.labels


def _is_label(table: pa.Table, name: str) -> bool:
    kind = table.schema.field(name).type
    return not (pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _text(value: Any) -> str:
    if value is None:
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def label_names(columns: list[str], taken: tuple[str, ...]) -> dict[str, str]:
    """Return a name that Prometheus accepts for each column; no two are equal, and none is taken."""
    found: dict[str, str] = {}
    used = set(taken)
    for column in columns:
        plain = _FORBIDDEN.sub("_", column).lstrip("_") or "column"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        name, number = plain, 2
        while name in used:
            name, number = f"{plain}_{number}", number + 1
        used.add(name)
        found[column] = name
    return found
