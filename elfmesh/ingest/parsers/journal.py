"""systemd's journal in its export format (`journalctl -o export`, systemd-journal-remote).

A record consists of fields `NAME=value`, one per line, up to an empty line. A value that does not fit into a
line has its name alone, eight bytes of its length (little endian), the bytes, and a newline. Columns are the
fields as strings; `ts` is __REALTIME_TIMESTAMP; of a repeated field the first is used. Cost: Python code for
every field of every record, about a third of a microsecond each.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.ingest.parsers.base import SAMPLES_MAX, Parsed, ParsedColumns, Parser, sample
from elfmesh.ingest.parsers.clock import LocalClock
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.json_lines import JsonParser
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.schema import StreamSchema, timestamps
from elfmesh.ingest.parsers.text_fields import TextOptions

JOURNAL_TIMES = ("__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP")
_LENGTH = struct.Struct("<Q")
FIELDS_MAX = 1024


class ExportFraming(Framing):
    """Framing of records that end at an empty line outside a value."""

    def complete(self, data: bytes) -> int:
        """Return the end of the last complete record; a record that is too long ends at an empty line."""
        end = 0
        for _, stop, _ in entries(data, self.bounds.nbytes):
            end = stop
        return end


def entries(data: bytes, bytes_max: int) -> Iterator[tuple[int, int, dict[str, str] | None]]:
    """Yield the complete records: begin, end (after the empty line), fields (None: invalid)."""
    at = 0
    while at < len(data):
        if data.startswith(b"\n", at):
            at += 1
            continue
        stop, fields = _entry(data, at)
        if stop < 0:  # incomplete
            if len(data) - at < bytes_max:
                return
            blank = data.find(b"\n\n", at)
            stop, fields = (blank + 2 if blank >= 0 else len(data)), None
        yield at, stop, fields
        at = stop


def _entry(data: bytes, at: int) -> tuple[int, dict[str, str] | None]:
    """Return the end of the record that begins here (-1: after the data), and its fields."""
    fields: dict[str, str] = {}
    broken = False
    while True:
        newline = data.find(b"\n", at)
        if newline < 0:
            return -1, None
        if newline == at:
            return at + 1, None if broken or not fields else fields
        equals = data.find(b"=", at, newline)
        if equals >= 0:
            name, value, at = data[at:equals], data[equals + 1 : newline], newline + 1
        else:
            name, begin = data[at:newline], newline + 1 + _LENGTH.size
            if begin > len(data):
                return -1, None
            end = begin + _LENGTH.unpack_from(data, newline + 1)[0]
            if end >= len(data):
                return -1, None
            broken = broken or data[end : end + 1] != b"\n"
            value, at = data[begin:end], end + 1
        if len(fields) < FIELDS_MAX:
            fields.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "replace"))


class JournaldParser(JsonParser):
    """Parser of the journal's JSON (`journalctl -o json`), which has other names for the time."""

    name = "journald"
    reads_patterns = False

    def __init__(
        self,
        source: str = "",
        host: str = "",
        *,
        schema: StreamSchema | None = None,
        timestamp: str | None = None,
        clock: LocalClock | None = None,
    ) -> None:
        super().__init__(source, host, schema=schema, timestamp=timestamp, clock=clock)
        if timestamp is None:
            self._timestamps = JOURNAL_TIMES


class ExportParser(Parser):
    """Parser of the journal's export format."""

    name = "journald_export"

    def __init__(self, source: str = "", host: str = "", options: TextOptions | None = None) -> None:
        super().__init__(source, host)
        self.framing = ExportFraming()
        self._records: list[dict[str, str] | None] = []

    def line_fields(self, text: str) -> Iterable[str]:
        name, equals, _ = text.partition("=")
        return (name,) if equals else ()

    def parse(self, block: bytes, columns: Sequence[str]) -> Parsed:
        found = list(entries(block + b"\n\n", 0))
        self._records = [fields for _, _, fields in found]
        # Lines are not used here: _raw consists of the records' bytes, with malformed UTF-8 replaced.
        texts = [
            block[begin:stop].rstrip(b"\n").decode("utf-8", "replace").encode() for begin, stop, _ in found
        ]
        ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64) - 1
        starts = ends - np.array([len(text) for text in texts], np.int64)
        whole = Lines(b"\n".join(texts))
        return self.parse_lines(whole.part(starts, ends), columns)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        good = [record for record in self._records if record is not None]
        bad = [row for row, record in enumerate(self._records) if record is None]
        rows = np.delete(np.arange(len(self._records)), bad) if bad else None
        samples = [
            sample("not a record of the journal's export format", lines.text(row))
            for row in bad[:SAMPLES_MAX]
        ]
        arrays = {
            name: timestamps([_time(record) for record in good])
            if name == "ts"
            else pa.array([record.get(name) for record in good], pa.string())
            for name in wanted
        }
        return ParsedColumns(arrays, rows, samples)


def _time(record: dict[str, str]) -> str | None:
    return next((record[name] for name in JOURNAL_TIMES if name in record), None)
