"""Formats that are defined by patterns: RE2 over whole blocks, one column per named group.

A line belongs to the first pattern that matches it; only requested groups are extracted. An empty or
unmatched group is null, because Arrow's extraction cannot distinguish the two.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.base import SAMPLES_MAX, sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts

_GROUP = re.compile(r"\(\?P<(\w+)>")


class LinePattern(Struct, frozen=True, dict=True):
    """RE2 pattern with named groups, searched for in each line.

    `fields`: field -> the groups that may contain it, best first; empty: each group is a field with its name.
    """

    text: str
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return self.fields or {name: (name,) for name in _GROUP.findall(self.text)}

    def apply(self, texts: pa.Array, names: Sequence[str]) -> tuple[Any, dict[str, pa.Array]]:
        """Return which strings match (bool per string), and the fields of those as strings."""
        known = [name for name in names if name in self.groups]
        needed = {group for name in known for group in self.groups[name]}
        cut = _GROUP.sub(lambda match: match[0] if match[1] in needed else "(?:", self.text)
        if not needed:
            matched = pc.match_substring_regex(texts, cut).to_numpy(zero_copy_only=False)
            return matched, {name: pa.nulls(int(matched.sum()), pa.string()) for name in names}
        found = pc.extract_regex(texts, cut)
        matched = found.is_valid().to_numpy(zero_copy_only=False)
        if found.null_count:
            found = found.drop_null()
        columns: dict[str, pa.Array] = {}
        for name in names:
            arrays = [found.field(group) for group in self.groups[name]] if name in known else []
            filled = [pc.if_else(pc.equal(array, ""), None, array) for array in arrays]
            columns[name] = pc.coalesce(*filled) if filled else pa.nulls(len(found), pa.string())
        return matched, columns


class LineFormat(Struct, frozen=True):
    """A pattern for lines, with its fields in order, and the types that are not string."""

    pattern: LinePattern
    names: tuple[str, ...]
    types: Mapping[str, pa.DataType]


def extract(
    lines: Lines, patterns: Sequence[LinePattern], names: Sequence[str], what: str
) -> tuple[dict[str, pa.Array], Kept, list[str]]:
    """Return the named fields, the lines that match a pattern (None: all), and samples of the others.

    A name that no pattern has is null; `what` is the name of the format in samples. Cost: one pass per
    pattern over the lines that earlier patterns did not match.
    """
    if not len(lines):
        return {name: pa.array([], pa.string()) for name in names}, None, []
    texts, left = lines.raw(), np.arange(len(lines))
    rows: list[Any] = []
    found: list[dict[str, pa.Array]] = []
    for pattern in patterns:
        matched, columns = pattern.apply(texts, names)
        if matched.all() and not rows:
            return columns, None, []
        rows.append(left[matched])
        found.append(columns)
        left = left[~matched]
        if not len(left):
            break
        texts = texts.filter(pa.array(~matched))
    samples = [sample(what, lines.text(row)) for row in left[:SAMPLES_MAX].tolist()]
    kept = np.concatenate(rows)
    order = np.argsort(kept, kind="stable")
    columns = {name: pa.concat_arrays([each[name] for each in found]) for name in names}
    if len(found) > 1:
        columns = {name: array.take(pa.array(order)) for name, array in columns.items()}
    return columns, kept[order] if len(left) else None, samples


class PatternParser(TextParser):
    """Parser of lines by a format's own patterns.

    `names` are its columns in the usual order. A value that does not fit `types` is null and counted. For the
    columns in `dashes`, `-` is null.
    """

    stateless = True

    def __init__(
        self,
        source: str,
        host: str,
        options: TextOptions,
        *,
        name: str,
        patterns: Sequence[LinePattern],
        names: Sequence[str],
        types: Mapping[str, pa.DataType] | None = None,
        dashes: Sequence[str] = (),
    ) -> None:
        super().__init__(source, host, options)
        self._declared = {**(types or {}), **self._declared}
        self.name, self.names = name, tuple(names)
        self._patterns, self._dashes = tuple(patterns), frozenset(dashes)

    def known_columns(self) -> tuple[str, ...] | None:
        return self.names

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        fields, rows, samples = self.extract(lines, [name for name in names if name in self.names])
        for name in self._dashes & fields.keys():
            fields[name] = pc.if_else(pc.equal(fields[name], "-"), None, fields[name])
        return fields, rows, samples

    def extract(self, lines: Lines, names: Sequence[str]) -> tuple[dict[str, pa.Array], Kept, list[str]]:
        return extract(lines, self._patterns, names, f"not a line of the {self.name} format")
