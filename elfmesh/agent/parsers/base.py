"""What every parser is: a block of whole lines in, one Arrow batch with only the asked columns out.

Owns the shape of the answer and the three columns every format has (`_raw`, `_source`, `_host`). Refuses to
know jobs, queries and files. Invariants: `lines` counts non-blank lines; each of them is either one row of
`batch` or one of `errors`; a bad line never costs a neighbour and never raises; columns stand in the order
they were asked for, a column the format does not have is all null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.agent.parsers.lines import Lines

META_COLUMNS = ("_raw", "_source", "_host")
TIMESTAMP_FIELDS = ("ts", "timestamp", "@timestamp", "time", "created_at", "eventTime")
"""Where `ts` is taken from when no field is declared: per record, the first of these that is there."""

SAMPLES_MAX = 3
SAMPLE_CHARACTERS_MAX = 160
TIMESTAMP = pa.timestamp("us", tz="UTC")
Rows = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(slots=True)
class Parsed:
    """One parsed block.

    Attributes:
        batch: one row per good line, the asked columns in the asked order, flat, named by dotted path.
        lines: non-blank lines read, good or bad.
        errors: lines that could not be parsed; `batch.num_rows + errors == lines`.
        samples: up to three reasons, each with the start of the offending text, unescaped.
        field_errors: single values that did not fit their column's type and became null.
        replaced: lines in which malformed UTF-8 was replaced by U+FFFD.
    """

    batch: pa.RecordBatch
    lines: int
    errors: int
    samples: list[str]
    field_errors: int = 0
    replaced: int = 0


@dataclass(slots=True)
class Columns:
    """What a format makes of a block's lines.

    Attributes:
        arrays: by column name; all of the length of `rows`. A name that is missing is all null.
        rows: which lines are good, ascending; None means all of them.
        errors: reason per bad line, for at most the first three.
    """

    arrays: Mapping[str, pa.Array]
    rows: Rows | None = None
    samples: list[str] = field(default_factory=list)
    field_errors: int = 0


class Parser(ABC):
    """Parses the blocks of one file or stream, in order. Not thread-safe: one block at a time.

    Args:
        source: what `_source` says: the file's path, or "-".
        host: what `_host` says.
    """

    name = ""

    def __init__(self, source: str = "", host: str = "") -> None:
        self.source = source
        self.host = host

    @abstractmethod
    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        """Cut the wanted columns (never `_raw` and its like) out of non-blank lines."""

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        """Parse one block of whole lines.

        Args:
            block: bytes that end at a line's end; the newline of the last line may be missing.
            columns: dotted paths; only these are made.
        """
        lines = Lines(block)
        found = self.columns(lines, [name for name in columns if name not in META_COLUMNS])
        total = len(lines)
        good = total if found.rows is None else len(found.rows)
        arrays = dict(found.arrays)
        for name in columns:
            if name in META_COLUMNS:
                arrays[name] = self._meta(name, lines, found.rows, good)
            elif name not in arrays:
                arrays[name] = pa.nulls(good)
        return Parsed(
            batch=make_batch([arrays[name] for name in columns], columns, good),
            lines=total,
            errors=total - good,
            samples=found.samples[:SAMPLES_MAX],
            field_errors=found.field_errors,
            replaced=lines.replaced,
        )

    def _meta(self, name: str, lines: Lines, rows: Rows | None, good: int) -> pa.Array:
        if name == "_raw":
            return lines.raw() if rows is None else lines.cut(lines.starts[rows], lines.ends[rows])
        return pa.repeat(pa.scalar(self.source if name == "_source" else self.host), good)


def make_batch(arrays: list[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """A batch that keeps its number of rows even without columns (`SELECT count(*)` asks for none)."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names=list(names))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def sample(reason: str, text: str) -> str:
    """One line of an error report: the reason and the start of the text it is about."""
    cut = text if len(text) <= SAMPLE_CHARACTERS_MAX else text[:SAMPLE_CHARACTERS_MAX] + "..."
    return f"{reason}: {cut}"


def strings(values: Sequence[str | None]) -> pa.Array:
    """A string column."""
    return pa.array(values, pa.string())
