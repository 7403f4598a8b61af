"""Base of formats whose values are text, and the format of a user's regular expression.

Every column is a string, so that the types do not depend on the data that an agent reads first; queries cast
where they need numbers. `ts` is read from the declared field or the usual names. A stream may declare types:
a value that cannot be cast is null and a field error. A regular expression is google-re2's unanchored search;
an empty or unmatched group is null.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.base import (
    TIMESTAMP,
    TIMESTAMP_FIELDS,
    ParsedColumns,
    Parser,
    read_each,
    sample,
    strings,
)
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.lines import Lines, Positions

Texts = Sequence[str | None]
Kept = list[int] | Positions | None
"""Indices of the valid lines, ascending; None: all."""


class TextOptions(Struct, frozen=True):
    """Options of a stream for its values: declared types, the field of `ts`, and the clock."""

    declared: Mapping[str, pa.DataType] = field(default_factory=dict)
    timestamp: str | None = None
    clock: LocalClock = field(default_factory=LocalClock)


class TextParser(Parser):
    """Base of text formats: `ts`, declared types, and one row per valid line."""

    reads_patterns = True

    def __init__(self, source: str = "", host: str = "", options: TextOptions | None = None) -> None:
        super().__init__(source, host)
        options = options or TextOptions()
        self._declared = dict(options.declared)
        self._timestamps: Sequence[str] = (options.timestamp,) if options.timestamp else TIMESTAMP_FIELDS
        self._clock = options.clock

    @abstractmethod
    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        """Return the named fields as strings, the valid lines (None: all) and samples of invalid ones."""

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        names = [name for name in wanted if name != "ts"]
        if "ts" in wanted:
            names += [name for name in self._timestamps if name not in names]
        fields, rows, samples = self.texts(lines, names)
        good = len(lines) if rows is None else len(rows)
        arrays: dict[str, pa.Array] = {}
        unfit: list[int] = []
        for name in wanted:
            if name == "ts":
                arrays[name] = self._event_times(fields, good, lines.scan)
            elif name in self._declared and name not in fields:
                arrays[name] = pa.nulls(good, self._declared[name])
            elif name in self._declared:
                arrays[name], bad = _cast(strings(fields[name]), self._declared[name])
                unfit += bad
                text = str(fields[name][bad[0]]) if bad else ""
                samples += [sample(f"{name} is not {self._declared[name]}", text)] if bad else []
            elif name in fields:
                arrays[name] = strings(fields[name])
        return ParsedColumns(arrays, None if rows is None else np.array(rows, np.int64), samples, unfit)

    def _event_times(self, fields: Mapping[str, Texts], rows: int, scan: Any) -> pa.Array:
        found: pa.Array | None = None
        for name in self._timestamps:
            if name not in fields:
                continue
            texts = strings(fields[name])
            found = texts if found is None else pc.coalesce(found, texts)
            if not found.null_count:
                break
        return pa.nulls(rows, TIMESTAMP) if found is None else self._clock.times(found, scan, self.source)


def _cast(array: pa.Array, kind: pa.DataType) -> tuple[pa.Array, list[int]]:
    try:
        return array.cast(kind), []
    except pa.ArrowInvalid:
        pass
    out: list[Any] = []
    bad: list[int] = []
    for place, value in enumerate(array):
        try:
            out.append(value.cast(kind).as_py())
        except pa.ArrowInvalid:
            bad.append(place)
            out.append(None)
    return pa.array(out, kind), bad


class RegexParser(TextParser):
    """Parser of lines by a user's RE2 pattern with named groups."""

    name = "regex"
    stateless = True

    def __init__(
        self,
        source: str = "",
        host: str = "",
        options: TextOptions | None = None,
        *,
        pattern: str,
    ) -> None:
        super().__init__(source, host, options)
        self._pattern, self.groups = compile_pattern(pattern)
        self._text = pattern
        self._optional = any(sign in pattern for sign in ("|", ")?", ")*", "){"))
        self._unnamed = self._pattern.groups > len(self.groups)

    def known_columns(self) -> tuple[str, ...] | None:
        return self.groups

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        """Read all lines at once if every group takes part in every match, else line by line."""
        known = [name for name in names if name in self.groups]
        if len(lines) and not self._optional and not self._unnamed:  # Arrow requires named groups
            return self._block(lines, known)
        rows, found, samples = read_each(
            enumerate(lines.texts()),
            self._pattern.search,
            lambda text: sample("the pattern does not match", text),
        )
        return {name: [match[name] or None for match in found] for name in known}, rows, samples

    def _block(self, lines: Lines, known: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        """Use Arrow's extraction, which is RE2 too but cannot distinguish empty and unmatched groups."""
        found = pc.extract_regex(lines.raw(), self._text)
        samples: list[str] = []
        rows: list[int] | None = None
        if found.null_count:
            good = found.is_valid().to_numpy(zero_copy_only=False)
            rows = np.flatnonzero(good).tolist()
            bad = np.flatnonzero(~good)[:3].tolist()
            samples = [sample("the pattern does not match", lines.text(row)) for row in bad]
            found = found.drop_null()
        fields = {name: found.field(name) for name in known}
        return (
            {name: pc.if_else(pc.equal(each, ""), None, each) for name, each in fields.items()},
            rows,
            samples,
        )


def compile_pattern(pattern: str) -> tuple[Any, tuple[str, ...]]:
    import re2

    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        reason = error.args[0].decode() if error.args and isinstance(error.args[0], bytes) else str(error)
        raise ConfigError(
            f"the pattern {pattern!r} is not valid: {reason}",
            where="format regex",
            hint="RE2 syntax: no look-around, no back references; name the columns as (?P<name>...).",
        ) from None
    groups = tuple(sorted(compiled.groupindex, key=compiled.groupindex.__getitem__))
    if not groups:
        raise ConfigError(
            f"the pattern {pattern!r} names no column",
            where="format regex",
            hint="Name the groups: (?P<level>[A-Z]+) (?P<message>.*).",
        )
    return compiled, groups
