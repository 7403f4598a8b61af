"""Base of all parsers: from a block of complete lines to one Arrow batch with the requested columns.

Every format has the columns `_raw`, `_source` and `_host`. `lines` counts non-blank lines; each is one of
`rows` or one of `errors`. An invalid line never affects other lines and never raises. A column that the
format does not have is all null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.lines import Lines

META_COLUMNS = ("_raw", "_source", "_host")
TIMESTAMP_FIELDS = ("ts", "timestamp", "@timestamp", "time", "created_at", "eventTime")
"""Fields from which `ts` is taken if no field is declared: for each record, the first one that exists."""

SAMPLES_MAX = 3
SAMPLE_CHARACTERS_MAX = 160
TIMESTAMP = pa.timestamp("us", tz="UTC")
Rows = np.ndarray[Any, np.dtype[np.int64]]
Read = TypeVar("Read")


class LazyArrays(Mapping[str, pa.Array]):
    """Columns by name; each is made at its first use and then cached. Two threads may make it twice."""

    __slots__ = ("_made", "_makers")

    def __init__(self, makers: Mapping[str, Callable[[], pa.Array]]) -> None:
        self._makers = makers
        self._made: dict[str, pa.Array] = {}

    def __getitem__(self, name: str) -> pa.Array:
        array = self._made.get(name)
        if array is None:
            array = self._made[name] = self._makers[name]()
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self._makers)

    def __len__(self) -> int:
        return len(self._makers)

    @property
    def made(self) -> frozenset[str]:
        return frozenset(self._made)


class Parsed(Struct):
    """Parsed block.

    Attributes:
        arrays: the requested columns in the requested order, by dotted path; unused ones are never built.
        lines: non-blank lines, valid or not.
        errors: lines that could not be parsed; `rows + errors == lines`.
        samples: up to three reasons, each with the start of the offending text, unescaped.
        unfit: the row of each value that did not fit its column's type and became null; rows may repeat.
        replaced: lines in which malformed UTF-8 was replaced by U+FFFD.
    """

    arrays: Mapping[str, pa.Array]
    rows: int
    lines: int
    errors: int
    samples: list[str]
    unfit: Sequence[int] = ()
    replaced: int = 0

    @property
    def field_errors(self) -> int:
        return len(self.unfit)

    @property
    def batch(self) -> pa.RecordBatch:
        return self.select(tuple(self.arrays))

    def select(self, names: Sequence[str]) -> pa.RecordBatch:
        """Return some of the columns, in this order; only these are built."""
        return make_batch([self.arrays[name] for name in names], names, self.rows)


class ParsedColumns(Struct):
    """Columns that a format has extracted from the lines of a block.

    Attributes:
        arrays: by column name, each with the length of `rows`; a missing name is all null.
        rows: the valid lines, ascending; None: all.
        samples: a reason for each of the first three invalid lines.
        unfit: as in `Parsed`: indices into `rows`.
    """

    arrays: Mapping[str, pa.Array]
    rows: Rows | None = None
    samples: list[str] = field(default_factory=list)
    unfit: Sequence[int] = ()


class Parser(ABC):
    """Parser of the blocks of one file or stream, in order. Not thread-safe."""

    name = ""
    framing: Framing | None = None
    """Rule for records of several lines; None: each line is a record."""
    stateless = False
    """Whether a block changes no state of the parser that the following blocks depend on."""
    directed = False
    """Whether lines can change how later lines are read. Such lines must not be passed over."""
    reads_patterns = False
    """Whether a pattern of the stream (`ts_format`) can define how `ts` is read."""
    hide: Callable[[Parser, Parsed], Parsed] | None = None
    """Redacts hidden fields; None: there are none."""

    def __init__(self, source: str = "", host: str = "") -> None:
        self.source = source
        self.host = host

    @property
    def side_by_side(self) -> bool:
        """Whether a branch may parse a block while this parser has not yet parsed the blocks before it.

        False if blocks change the state of the parser, except by what `accept` takes over.
        """
        return self.stateless and self.framing is None

    def branch(self) -> Parser:
        """Return a parser in the same state for another thread."""
        return copy(self)

    def accept(self, branch: Parser) -> bool:
        """Take over what a branch has learned from the next block.

        Returns False if this parser has learned something else since; the block must be parsed again.
        """
        return True

    @abstractmethod
    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        """Extract the requested columns (never `_raw`, `_source` or `_host`) from non-blank lines."""

    def known_columns(self) -> tuple[str, ...] | None:
        """Return the format's own columns, in the order of `SELECT *`; None if they depend on the data."""
        return None

    def header_columns(self, block: bytes) -> tuple[str, ...] | None:
        """Return the columns that the head of a file declares, if any; does not consume the block."""
        return None

    def line_fields(self, text: str) -> Iterable[str]:
        """Return the columns of one line, for formats whose columns depend on the data."""
        return ()

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        """Parse one block of complete lines into these columns; the last newline may be missing."""
        lines = Lines(block)
        return self.parse_lines(lines if self.framing is None else self.framing.merge(lines), columns)

    def parse_lines(self, lines: Lines, columns: Sequence[str]) -> Parsed:
        found = self.columns(lines, [name for name in columns if name not in META_COLUMNS])
        total = len(lines)
        good = total if found.rows is None else len(found.rows)
        makers: dict[str, Callable[[], pa.Array]] = {}
        for name in columns:
            if name in META_COLUMNS:
                makers[name] = partial(self._meta, name, lines, found.rows, good, self.source)
            elif name in found.arrays:
                makers[name] = partial(found.arrays.__getitem__, name)
            else:
                makers[name] = partial(pa.nulls, good)
        return Parsed(
            arrays=LazyArrays(makers),
            rows=good,
            lines=total,
            errors=total - good,
            samples=found.samples[:SAMPLES_MAX],
            unfit=found.unfit,
            replaced=lines.replaced,
        )

    def _meta(self, name: str, lines: Lines, rows: Rows | None, good: int, source: str) -> pa.Array:
        if name == "_raw":
            return lines.raw() if rows is None else lines.cut(lines.starts[rows], lines.ends[rows])
        return pa.repeat(pa.scalar(source if name == "_source" else self.host), good)


def join_parsed(parts: Sequence[Parsed]) -> Parsed:
    def column(name: str) -> pa.Array:
        arrays = [part.arrays[name] for part in parts]
        kinds = [array.type for array in arrays if not pa.types.is_null(array.type)]
        kind = kinds[0] if kinds else pa.null()
        return pa.concat_arrays([array.cast(kind) for array in arrays])

    return Parsed(
        arrays=LazyArrays({name: partial(column, name) for name in parts[0].arrays}),
        rows=sum(part.rows for part in parts),
        lines=sum(part.lines for part in parts),
        errors=sum(part.errors for part in parts),
        samples=[each for part in parts for each in part.samples][:SAMPLES_MAX],
        unfit=[
            before + row
            for before, part in zip(_rows_before(parts), parts, strict=True)
            for row in part.unfit
        ],
        replaced=max(part.replaced for part in parts),
    )


def _rows_before(parts: Sequence[Parsed]) -> list[int]:
    return list(accumulate((part.rows for part in parts[:-1]), initial=0))


def make_batch(arrays: list[pa.Array], names: Sequence[str], rows: int) -> pa.RecordBatch:
    """Make a batch that keeps its number of rows even without columns (`SELECT count(*)` requests none)."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names=list(names))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def sample(reason: str, text: str) -> str:
    """Return one line of an error report: the reason and the start of the text."""
    cut = text if len(text) <= SAMPLE_CHARACTERS_MAX else text[:SAMPLE_CHARACTERS_MAX] + "..."
    return f"{reason}: {cut}"


def read_each(
    texts: Iterable[tuple[int, str]], read: Callable[[str], Read | None], sampled: Callable[[str], str]
) -> tuple[list[int], list[Read], list[str]]:
    """Parse lines one by one. Returns the valid rows, their values, and samples of the invalid lines."""
    rows: list[int] = []
    found: list[Read] = []
    samples: list[str] = []
    for row, text in texts:
        record = read(text)
        if record is not None:
            rows.append(row)
            found.append(record)
        elif len(samples) < SAMPLES_MAX:
            samples.append(sampled(text))
    return rows, found, samples


def strings(values: Sequence[str | None] | pa.Array) -> pa.Array:
    return values if isinstance(values, pa.Array) else pa.array(values, pa.string())
