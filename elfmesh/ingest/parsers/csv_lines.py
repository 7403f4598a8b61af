"""csv: RFC 4180 quoting, comma, one record per line; tsv: the same with a tab.

The columns are declared or taken from the file's first line. Quoted newlines are not supported. An empty
field is null. A line with another number of fields, or with text beside a quoted field, is an error; so is
every line for a column that the first line names twice. Python's csv module, strict, is the definition. Whole
blocks are read by pyarrow's reader; lines whose quotes do not open and close at commas are read by the csv
module. A property test compares the two.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.base import Parsed, sample, strings
from elfmesh.ingest.parsers.lines import BYTE_ORDER_MARK, Lines, Positions
from elfmesh.ingest.parsers.scanner import refused_room
from elfmesh.ingest.parsers.schema import STRING
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts
from elfmesh.limits import LINE_BYTES_MAX

COMMA, TAB = ",", "\t"
QUOTE = ord('"')
Mask = np.ndarray[Any, np.dtype[np.bool_]]

csv.field_size_limit(max(csv.field_size_limit(), LINE_BYTES_MAX))


class CsvParser(TextParser):
    """Parser of separated lines; without `header`, the first parsed line has the column names."""

    def __init__(
        self,
        source: str = "",
        host: str = "",
        options: TextOptions | None = None,
        *,
        header: Sequence[str] | None = None,
        delimiter: str = COMMA,
    ) -> None:
        super().__init__(source, host, options)
        self.name = "tsv" if delimiter == TAB else "csv"
        self.header = tuple(header) if header is not None else None
        self._delimiter = delimiter

    @property
    def side_by_side(self) -> bool:
        return self.header is not None and self.framing is None

    def known_columns(self) -> tuple[str, ...] | None:
        return self.header

    def header_columns(self, block: bytes) -> tuple[str, ...] | None:
        lines = Lines(block)
        return header_of(lines, self._delimiter) if len(lines) else ()

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        if self.header is None:
            lines = Lines(block)
            if len(lines):
                self.header = header_of(lines, self._delimiter)
                newline = lines.data.find(b"\n", int(lines.ends[0]))
                block = lines.data[newline + 1 :] if newline >= 0 else b""
        return super().parse(block, columns)

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        """Read lines by pyarrow where it certainly agrees with the csv module, else line by line."""
        header = self.header or ()
        wanted = [name for name in names if name in header]
        twice = [name for name in wanted if header.count(name) > 1]
        if twice:
            return {name: [] for name in wanted}, [], [_ambiguous(twice[0], header)] if len(lines) else []
        if not len(lines):
            return {name: [] for name in wanted}, [], []
        places = [header.index(name) for name in wanted]
        whole = len(header) > 1
        found = _read_block(lines, len(header), places, self._delimiter) if whole else None
        if found is not None:
            arrays, kept, samples = found
            return dict(zip(wanted, arrays, strict=True)), kept, samples
        rows, records, samples = _read_each(lines, range(len(lines)), len(header), self._delimiter)
        columns = [_column(records, place) for place in places]
        return dict(zip(wanted, columns, strict=True)), rows, samples


def csv_row(text: str, delimiter: str = COMMA) -> list[str]:
    """Return the fields of one csv line; [] if the quoting is invalid."""
    try:
        return next(csv.reader([text], strict=True, delimiter=delimiter), [])
    except csv.Error:
        return []


def header_of(lines: Lines, delimiter: str = COMMA) -> tuple[str, ...]:
    return tuple(name.strip() for name in csv_row(lines.text(0), delimiter))


def _ambiguous(name: str, header: Sequence[str]) -> str:
    return sample(
        f"the header names {name!r} twice, so name the columns (format csv:a,b,c)", ",".join(header)
    )


def _column(records: Iterable[Sequence[str]], place: int) -> list[str | None]:
    return [record[place] or None for record in records]


def _read_each(
    lines: Lines, candidates: Iterable[int], width: int, delimiter: str
) -> tuple[list[int], list[list[str]], list[str]]:
    rows: list[int] = []
    records: list[list[str]] = []
    samples: list[str] = []
    for row in candidates:
        text = lines.text(row)
        record = csv_row(text, delimiter)
        if len(record) == width:
            rows.append(row)
            records.append(record)
        elif len(samples) < 3:
            what = f"{len(record)} fields instead of {width}" if record else "a quote is wrong or not closed"
            samples.append(sample(what, text))
    return rows, records, samples


def _read_block(
    lines: Lines, width: int, places: Sequence[int], delimiter: str
) -> tuple[list[pa.Array], Kept, list[str]] | None:
    data = lines.data
    if data.startswith(BYTE_ORDER_MARK) or (b"\r" in data and data.count(b"\r") != data.count(b"\r\n")):
        return None
    odd = _odd_lines(lines, ord(delimiter))
    room = len(refused_room(len(lines)))
    if len(odd) > room:
        return None
    kept = np.delete(np.arange(len(lines)), odd)
    if len(odd):
        texts = lines.cut(lines.starts[kept], lines.ends[kept])
        data = pc.binary_join(pa.ListArray.from_arrays([0, len(texts)], texts), "\n")[0].as_buffer()
    found = _read_csv(data, len(kept), width, places, room - len(odd), delimiter)
    if found is None:
        return None
    arrays, wrong = found
    if not len(odd) and not len(wrong):
        return arrays, None, []
    slow, records, samples = _read_each(
        lines, np.sort(np.append(odd, kept[wrong])).tolist(), width, delimiter
    )
    rows = np.append(np.delete(kept, wrong), np.array(slow, np.int64))
    order = np.argsort(rows)
    if slow:
        more = [strings(_column(records, place)) for place in places]
        take = pa.array(order)
        arrays = [pa.concat_arrays(pair).take(take) for pair in zip(arrays, more, strict=True)]
    return arrays, rows[order], samples


def _odd_lines(lines: Lines, delimiter: int) -> Positions:
    """Return the lines with a quote that neither begins or ends a field nor is doubled."""
    if b'"' not in lines.data:
        return np.zeros(0, np.int64)
    buffer = lines.buffer
    quotes = np.flatnonzero(buffer[: len(lines.data)] == QUOTE)
    line = np.searchsorted(lines.starts, quotes, side="right") - 1
    counts = np.bincount(line, minlength=len(lines))
    place = np.arange(len(quotes)) - (np.cumsum(counts) - counts)[line]
    opens = place % 2 == 0
    beside = np.where(opens, quotes - 1, quotes + 1)
    edge = np.where(opens, lines.starts[line], lines.ends[line] - 1)
    neighbour = buffer[beside]
    good = (quotes == edge) | (neighbour == delimiter) | (neighbour == QUOTE)
    odd: Mask = counts % 2 == 1
    odd[line[~good]] = True
    return np.flatnonzero(odd)


def _read_csv(
    data: bytes | pa.Buffer, rows: int, width: int, places: Sequence[int], room: int, delimiter: str
) -> tuple[list[pa.Array], Positions] | None:
    """Return some columns, and the rows with another number of fields, which the columns do not contain.

    Returns None if there are more such rows than `room`, or if the rows do not correspond to the lines.
    """
    import pyarrow.csv as arrow_csv

    wrong: list[int] = []

    def note(row: Any) -> str:
        wrong.append(row.number - 1)
        return "skip" if len(wrong) <= room else "error"

    names = [str(place) for place in range(width)]
    asked = [names[place] for place in places or (0,)]
    try:
        table = arrow_csv.read_csv(
            pa.BufferReader(data),
            read_options=arrow_csv.ReadOptions(
                use_threads=False, column_names=names, block_size=len(data) + 1
            ),
            parse_options=arrow_csv.ParseOptions(delimiter=delimiter, invalid_row_handler=note),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=asked,
                column_types=dict.fromkeys(asked, STRING),
                null_values=[""],
                strings_can_be_null=True,
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows + len(wrong) != rows:
        return None
    columns = [table[name].combine_chunks() for name in asked] if places else []
    return columns, np.array(wrong, np.int64)
