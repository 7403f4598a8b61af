"""NDJSON: one JSON object a line, decoded straight into the fields that are asked for.

The fast path decodes a whole block with one call into objects that have only the asked fields; everything
else in a line is skipped by the decoder without being built. It is taken when every line begins with `{`
and ends with `}` and the number of objects equals the number of lines: `}` before and `{` after a line
break can only be a boundary between two documents, so equal numbers mean exactly one object a line.
Otherwise each line is decoded alone, and one bad line costs one line. A line that is JSON but no object is
an error.

A dotted path goes into nested objects; where that leads nowhere, a key that literally contains the dots is
taken, at any depth (`{"log.level": "warn"}`, `{"zones": {"example.org": {"hits": 1}}}`). Of duplicate keys
the last wins.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Union

import msgspec
import numpy as np
import pyarrow as pa

from elfmesh.agent.parsers.base import TIMESTAMP_FIELDS, Columns, Parser, sample
from elfmesh.agent.parsers.lines import Lines
from elfmesh.agent.parsers.schema import StreamSchema, timestamps

OPEN, CLOSE = ord("{"), ord("}")
Getter = Callable[[list[Any]], list[Any]]
PARTS_MAX = 16
"""Longer paths are nested or one key: what a path may mean grows with the square of its parts."""
_DECODE_ERRORS = (msgspec.DecodeError, RecursionError)


class JsonParser(Parser):
    """Parses NDJSON.

    Args:
        schema: types of the stream's columns, shared by its files.
        timestamp: the declared field that `ts` is taken from; None tries the usual names.
    """

    name = "json"

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        schema: StreamSchema | None = None,
        timestamp: str | None = None,
    ) -> None:
        super().__init__(source, host)
        self.schema = schema if schema is not None else StreamSchema()
        self._timestamps = (timestamp,) if timestamp else TIMESTAMP_FIELDS
        self._plans: dict[tuple[str, ...], Plan] = {}

    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        """Decode the block and build one typed column per wanted path."""
        plan = self._plan(tuple(wanted))
        objects, rows, samples = _decode(lines, plan.decoder)
        arrays: dict[str, pa.Array] = {}
        field_errors = 0
        cache: dict[str, list[Any]] = {}
        for name in wanted:
            if name == "ts":
                arrays[name] = self._event_times(plan, objects, cache)
                continue
            values = plan.values(name, objects, cache)
            arrays[name], bad = self.schema.column(name, values)
            field_errors += len(bad)
            samples += [sample(f"{name} is not {arrays[name].type}", repr(values[i])) for i in bad[:1]]
        return Columns(arrays, rows, samples, field_errors)

    def _event_times(self, plan: Plan, objects: list[Any], cache: dict[str, list[Any]]) -> pa.Array:
        found: list[Any] = [None] * len(objects)
        for name in self._timestamps:
            values = plan.values(name, objects, cache)
            found = [new if old is None else old for old, new in zip(found, values, strict=True)]
            if None not in found:
                break
        return timestamps(found)

    def _plan(self, wanted: tuple[str, ...]) -> Plan:
        plan = self._plans.get(wanted)
        if plan is None:
            paths = [name for name in wanted if name != "ts"]
            if "ts" in wanted:
                paths += [name for name in self._timestamps if name not in paths]
            plan = self._plans[wanted] = Plan(paths)
        return plan


class _Tree:
    """The asked paths as nested names; `asked` marks a path that ends here."""

    __slots__ = ("asked", "children", "kind")

    def __init__(self) -> None:
        self.asked = False
        self.children: dict[str, _Tree] = {}
        self.kind: Any = None


class Plan:
    """A decoder for a set of dotted paths, and how to read each path from what it returns."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._root = _Tree()
        for path in paths:
            for parts in _readings(path):
                node = self._root
                for part in parts:
                    node = node.children.setdefault(part, _Tree())
                node.asked = True
        self.decoder = msgspec.json.Decoder(_struct(self._root))
        self._getters = {path: self._getter(path) for path in paths}

    def values(self, path: str, objects: list[Any], cache: dict[str, list[Any]]) -> list[Any]:
        """The value at `path` in every object, None where there is none."""
        if path not in cache:
            cache[path] = self._getters[path](objects)
        return cache[path]

    def _getter(self, path: str) -> Getter:
        nested, *literals = [self._walk(parts) for parts in _readings(path)]
        if not literals:
            return nested

        def nested_or_literal(objects: list[Any]) -> list[Any]:
            values = nested(objects)
            for literal in literals:
                if None not in values:
                    break
                flat = literal(objects)
                values = [new if old is None else old for old, new in zip(values, flat, strict=True)]
            return values

        return nested_or_literal

    def _walk(self, parts: Sequence[str]) -> Getter:
        node = self._root
        steps: list[Callable[[list[Any]], list[Any]]] = []
        plain = False
        for part in parts:
            steps.append(_dict_step(part) if plain else _field_step(node, part))
            node = node.children[part]
            plain = plain or node.kind is None

        def walk(objects: list[Any]) -> list[Any]:
            values = objects
            for step in steps:
                values = step(values)
            return values

        return walk


def _readings(path: str) -> list[list[str]]:
    """The keys a dotted path may mean, best first: all nested, then with one key that contains dots."""
    parts = path.split(".")
    readings = [parts]
    if len(parts) > PARTS_MAX:
        return [parts, [path]]
    for width in range(len(parts), 1, -1):
        readings += [
            [*parts[:at], ".".join(parts[at : at + width]), *parts[at + width :]]
            for at in range(len(parts) - width + 1)
        ]
    return readings


def _struct(node: _Tree) -> Any:
    """A msgspec type for an object with the node's children; sets the `kind` of every inner object.

    A node that is asked for itself and has children is decoded whole (kind None) and walked as a dict.
    """
    fields: list[Any] = []
    for number, (name, child) in enumerate(node.children.items()):
        kind: Any = Any
        if child.children and not child.asked:
            inner = _struct(child)
            kind = Union[inner, str, int, float, bool, list, None]  # noqa: UP007 - built at run time
        fields.append((f"f{number}", kind, msgspec.field(default=None, name=name)))
    node.kind = msgspec.defstruct("Fields", fields, gc=False)
    return node.kind


def _field_step(node: _Tree, name: str) -> Getter:
    attribute = f"f{list(node.children).index(name)}"
    get, kind = attrgetter(attribute), node.kind

    def step(values: list[Any]) -> list[Any]:
        try:
            return list(map(get, values))
        except AttributeError:
            return [get(value) if type(value) is kind else None for value in values]

    return step


def _dict_step(name: str) -> Getter:
    def step(values: list[Any]) -> list[Any]:
        return [value.get(name) if type(value) is dict else None for value in values]

    return step


def _decode(lines: Lines, decoder: Any) -> tuple[list[Any], np.ndarray[Any, Any] | None, list[str]]:
    """All good objects, the rows they came from (None: every row), and samples of the bad lines."""
    shaped = (lines.buffer[lines.starts] == OPEN) & (lines.buffer[lines.ends - 1] == CLOSE)
    if shaped.all():
        try:
            objects: list[Any] = decoder.decode_lines(lines.data)
        except _DECODE_ERRORS:
            objects = []
        if len(objects) == len(lines):
            return objects, None, []
    objects = []
    rows: list[int] = []
    samples: list[str] = []
    for row in range(len(lines)):
        line = lines.bytes(row)
        try:
            objects.append(decoder.decode(line))
            rows.append(row)
        except _DECODE_ERRORS as error:
            if len(samples) < 3:
                samples.append(sample(_reason(error), line.decode()))
    return objects, np.array(rows, np.int64), samples


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "JSON is nested too deeply"
    text = str(error)
    return "not a JSON object" if text.startswith("Expected `object`") else text


def json_fields(text: str) -> tuple[str, ...]:
    """The names of one object's own fields; nothing for a line that is no object."""
    try:
        return tuple(msgspec.json.decode(text, type=dict[str, msgspec.Raw]))
    except _DECODE_ERRORS:
        return ()
