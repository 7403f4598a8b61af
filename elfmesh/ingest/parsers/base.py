"""What every parser is: a block of whole lines in, one Arrow batch with only the asked columns out.

Every format has the columns `_raw`, `_source` and `_host`. `lines` counts non-blank lines, and each is one of
`rows` or one of `errors`. A bad line never costs a neighbour and never raises. A column the format does not
have is all null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.lines import Lines

META_COLUMNS = ("_raw", "_source", "_host")
TIMESTAMP_FIELDS = ("ts", "timestamp", "@timestamp", "time", "created_at", "eventTime")
"""Where `ts` is taken from when no field is declared: per record, the first of these that is there."""

SAMPLES_MAX = 3
SAMPLE_CHARACTERS_MAX = 160
TIMESTAMP = pa.timestamp("us", tz="UTC")
Rows = np.ndarray[Any, np.dtype[np.int64]]
Read = TypeVar("Read")


class LazyArrays(Mapping[str, pa.Array]):
    """Columns by name, each made when it is first asked for and then kept; a maker may run twice."""

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


@dataclass(slots=True)
class Parsed:
    """One parsed block.

    Attributes:
        arrays: the asked columns in the asked order, by dotted path; a column that a filter spares is never
            built.
        lines: non-blank lines read, good or bad.
        errors: lines that could not be parsed; `rows + errors == lines`.
        samples: up to three reasons, each with the start of the offending text, unescaped.
        unfit: the row of each single value that did not fit its column's type and became null; a row that has
            several is there several times.
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
        """Some of the columns, in this order; only these are made."""
        return make_batch([self.arrays[name] for name in names], names, self.rows)


@dataclass(slots=True)
class Columns:
    """What a format makes of a block's lines.

    Attributes:
        arrays: by column name; all of the length of `rows`. A name that is missing is all null.
        rows: which lines are good, ascending; None means all of them.
        samples: reason per bad line, for at most the first three.
        unfit: as in `Parsed`: places within `rows`.
    """

    arrays: Mapping[str, pa.Array]
    rows: Rows | None = None
    samples: list[str] = field(default_factory=list)
    unfit: Sequence[int] = ()


class Parser(ABC):
    """Parses the blocks of one file or stream, in order; one block at a time, not thread-safe."""

    name = ""
    framing: Framing | None = None
    """Which lines are one record; None: each is one."""
    hide: Callable[[Parser, Parsed], Parsed] | None = None
    """What blanks the values that no job here may read; None: nothing."""

    def __init__(self, source: str = "", host: str = "") -> None:
        self.source = source
        self.host = host

    @abstractmethod
    def columns(self, lines: Lines, wanted: Sequence[str]) -> Columns:
        """Cut the wanted columns (never `_raw` and its like) out of non-blank lines."""

    def known_columns(self) -> tuple[str, ...] | None:
        """The format's own columns, in the order `SELECT *` means; None while only the data tells."""
        return None

    def header_columns(self, block: bytes) -> tuple[str, ...] | None:
        """The columns that the head of a file names, if it does; nothing of the block is used up."""
        return None

    def line_fields(self, text: str) -> Iterable[str]:
        """The columns that one line shows, where only the data tells."""
        return ()

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        """Parse one block of whole lines into these columns; the last newline may be missing."""
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
    """A batch that keeps its number of rows even without columns (`SELECT count(*)` asks for none)."""
    if arrays:
        return pa.RecordBatch.from_arrays(arrays, names=list(names))
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), rows, [None]))


def sample(reason: str, text: str) -> str:
    """One line of an error report: the reason and the start of the text it is about."""
    cut = text if len(text) <= SAMPLE_CHARACTERS_MAX else text[:SAMPLE_CHARACTERS_MAX] + "..."
    return f"{reason}: {cut}"


def read_each(
    texts: Iterable[tuple[int, str]], read: Callable[[str], Read | None], sampled: Callable[[str], str]
) -> tuple[list[int], list[Read], list[str]]:
    """Lines one by one: the rows that `read` takes, what it makes of them, and samples of the others."""
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
