"""NDJSON: one JSON object per line; only the requested fields are decoded.

msgspec defines the meaning of a line. The native scanner (see `scanner`) leaves uncertain lines to it; a
property test compares the two. Without the scanner, one call decodes a block into objects that have only the
requested fields, provided that every line begins with `{` and ends with `}` and there are as many objects as
lines, because only then is each line one document. Otherwise each line is decoded separately. A line that is
not an object is an error. A dotted path refers to nested objects, else to a key with literal dots, at any
depth. Of duplicate keys the last wins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pyarrow as pa

from elfmesh.ingest.parsers.base import TIMESTAMP_FIELDS, LazyArrays, ParsedColumns, Parser, sample
from elfmesh.ingest.parsers.cells import BOOL, FLOAT, INT, TEXT_MASK, CellField, Grid
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.json_plan import JsonPlan
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.scanner import refused_room
from elfmesh.ingest.parsers.schema import StreamSchema, timestamps
from elfmesh.ingest.parsers.time_pattern import as_texts

OPEN, CLOSE = ord("{"), ord("}")
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError)


class JsonParser(Parser):
    """Parser of NDJSON; `schema` has the types of the stream's columns, shared by its files.

    `timestamp` is the declared field of `ts`; None tries the usual names. The pattern of `clock` defines how
    it is read; without one, zone and year are those of the values.
    """

    name = "json"
    stateless = True
    reads_patterns = True

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        schema: StreamSchema | None = None,
        timestamp: str | None = None,
        clock: LocalClock | None = None,
    ) -> None:
        super().__init__(source, host)
        self.schema = schema if schema is not None else StreamSchema()
        self._timestamps: Sequence[str] = (timestamp,) if timestamp else TIMESTAMP_FIELDS
        self._clock = clock if clock is not None and clock.pattern else None
        self._plans: dict[tuple[str, ...], JsonPlan] = {}

    def branch(self) -> JsonParser:
        other = copy(self)
        other.schema = self.schema.branch()
        return other

    def accept(self, branch: Parser) -> bool:
        return isinstance(branch, JsonParser) and self.schema.accept(branch.schema)

    def line_fields(self, text: str) -> Iterable[str]:
        return json_fields(text)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        plan = self._plan(tuple(wanted))
        scanned = self._scanned(lines, plan, wanted) if lines.scan is not None and len(lines) else None
        return self._decoded(lines, plan, wanted) if scanned is None else scanned

    def _scanned(self, lines: Lines, plan: JsonPlan, wanted: Sequence[str]) -> ParsedColumns | None:
        """Read columns by the scanner and decode the lines that it refused; None if it refused too many.

        Types are determined here, for every column in the order of `wanted`; only the copying is deferred.
        """
        found = _scan(lines, plan)
        if found is None:
            return None
        grid, rows, samples = found
        makers: dict[str, Callable[[], pa.Array]] = {}
        unfit: list[int] = []
        for name in wanted:
            if name == "ts":
                slots = [slot for path in self._timestamps for slot in plan.slots[path]]
                times = grid.field(slots)
                makers[name] = times.times if self._clock is None else partial(self._by_clock, times)
                continue
            field = grid.field(plan.slots[name])
            kind = _plain_kind(field)
            settled = None if kind is None else self.schema.settle(name, kind)
            if settled is not None:
                makers[name] = partial(field.column, settled)
                continue
            values = field.values()
            array, bad = self.schema.column(name, values)
            makers[name] = partial(_same, array)
            unfit += bad
            samples += [sample(f"{name} is not {array.type}", repr(values[i])) for i in bad[:1]]
        return ParsedColumns(LazyArrays(makers), rows, samples, unfit)

    def _decoded(self, lines: Lines, plan: JsonPlan, wanted: Sequence[str]) -> ParsedColumns:
        objects, rows, samples = _decode(lines, plan.decoder)
        arrays: dict[str, pa.Array] = {}
        unfit: list[int] = []
        cache: dict[str, list[Any]] = {}
        for name in wanted:
            if name == "ts":
                arrays[name] = self._event_times(plan, objects, cache)
                continue
            values = plan.values(name, objects, cache)
            arrays[name], bad = self.schema.column(name, values)
            unfit += bad
            samples += [sample(f"{name} is not {arrays[name].type}", repr(values[i])) for i in bad[:1]]
        return ParsedColumns(arrays, rows, samples, unfit)

    def _event_times(self, plan: JsonPlan, objects: list[Any], cache: dict[str, list[Any]]) -> pa.Array:
        found: list[Any] = [None] * len(objects)
        for name in self._timestamps:
            values = plan.values(name, objects, cache)
            found = [new if old is None else old for old, new in zip(found, values, strict=True)]
            if None not in found:
                break
        return (
            timestamps(found)
            if self._clock is None
            else self._clock.times(as_texts(found), None, self.source)
        )

    def _by_clock(self, field: CellField) -> pa.Array:
        assert self._clock is not None
        return self._clock.times(as_texts(field.values()), None, self.source)

    def _plan(self, wanted: tuple[str, ...]) -> JsonPlan:
        plan = self._plans.get(wanted)
        if plan is None:
            paths = [name for name in wanted if name != "ts"]
            if "ts" in wanted:
                paths += [name for name in self._timestamps if name not in paths]
            plan = self._plans[wanted] = JsonPlan(paths)
        return plan


def _same(array: pa.Array) -> pa.Array:
    return array


def _plain_kind(field: CellField) -> pa.DataType | None:
    """Return the type that Arrow would infer for the values of a field; None if they have several kinds."""
    if field.present & ~TEXT_MASK == 0:
        return pa.string() if field.present else pa.null()
    if field.present == 1 << BOOL:
        return pa.bool_()
    if field.present == 1 << INT:
        return pa.int64()
    return pa.float64() if field.present & ~(1 << INT) == 1 << FLOAT else None


def _scan(lines: Lines, plan: JsonPlan) -> tuple[Grid, np.ndarray[Any, Any] | None, list[str]] | None:
    count = len(lines)
    grid = Grid(lines.scan, lines.data, plan.slot_count, count)
    refused = refused_room(count)
    open_lines = lines.scan.project(
        plan.compiled(lines.scan), lines.data, lines.starts, lines.ends, grid.kinds, grid.words, refused
    )
    if open_lines > len(refused):
        return None
    objects, good, samples = _decode_each(lines, plan.decoder, refused[:open_lines].tolist())
    cache: dict[str, list[Any]] = {}
    for path, slots in plan.slots.items() if objects else ():
        for row, value in zip(good, plan.values(path, objects, cache), strict=True):
            grid.put(slots[0], row, value)
    return grid, grid.drop(refused[:open_lines], good), samples


def _decode(lines: Lines, decoder: Any) -> tuple[list[Any], np.ndarray[Any, Any] | None, list[str]]:
    shaped = (lines.buffer[lines.starts] == OPEN) & (lines.buffer[lines.ends - 1] == CLOSE)
    if shaped.all():
        try:
            objects: list[Any] = decoder.decode_lines(lines.data)
        except _DECODE_ERRORS:
            objects = []
        if len(objects) == len(lines):
            return objects, None, []
    objects, rows, samples = _decode_each(lines, decoder, range(len(lines)))
    return objects, np.array(rows, np.int64), samples


def _decode_each(
    lines: Lines, decoder: Any, candidates: Iterable[int]
) -> tuple[list[Any], list[int], list[str]]:
    objects: list[Any] = []
    rows: list[int] = []
    samples: list[str] = []
    for row in candidates:
        line = lines.bytes(row)
        try:
            objects.append(decoder.decode(line))
            rows.append(row)
        except _DECODE_ERRORS as error:
            if len(samples) < 3:
                samples.append(sample(_reason(error), line.decode()))
    return objects, rows, samples


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "JSON is nested too deeply"
    text = str(error)
    return "not a JSON object" if text.startswith("Expected `object`") else text


def json_fields(text: str) -> tuple[str, ...]:
    """Return the names of one object's own fields; none if the line is not an object."""
    try:
        return tuple(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    except _DECODE_ERRORS:
        return ()
