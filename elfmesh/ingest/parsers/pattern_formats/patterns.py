"""Formats that are patterns: whole blocks through RE2, one column per named group.

A line belongs to the first pattern that it matches, and only asked groups are cut. A group that is empty or
took no part is null, because Arrow's extraction cannot tell the two apart.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from elfmesh.ingest.parsers.base import SAMPLES_MAX, sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts

_GROUP = re.compile(r"\(\?P<(\w+)>")


@dataclass(frozen=True)
class Pattern:
    """RE2 with named groups, searched for in each line.

    `fields`: field -> the groups it may come from, best first; empty: each group is a field of its name.
    """

    text: str
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def groups(self) -> Mapping[str, tuple[str, ...]]:
        return self.fields or {name: (name,) for name in _GROUP.findall(self.text)}

    def apply(self, texts: pa.Array, names: Sequence[str]) -> tuple[Any, dict[str, pa.Array]]:
        """Which texts match (bool per text), and the fields of those that do, as strings."""
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


def extract(
    lines: Lines, patterns: Sequence[Pattern], names: Sequence[str], what: str
) -> tuple[dict[str, pa.Array], Kept, list[str]]:
    """The named fields, the lines that match one of the patterns (None: all), samples of the others.

    A name that no pattern has is null; `what` says in samples what a bad line is not. Cost: a pass per
    pattern over the lines that those before it left.
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
    """Parses lines by a format's own patterns.

    `names` are its columns in the order people expect; a value that does not fit `types` is null and counted;
    in `dashes`, `-` means that there is nothing.
    """

    def __init__(
        self,
        source: str,
        host: str,
        options: TextOptions,
        *,
        name: str,
        patterns: Sequence[Pattern],
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
