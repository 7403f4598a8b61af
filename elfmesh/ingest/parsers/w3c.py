"""W3C extended logs (IIS and others): `#Fields:` declares the columns of the following lines.

Columns are the fields in lower case with `_` (`cs(User-Agent)` is cs_user_agent). `ts` is `date` and `time`
in UTC, or `time` on the day of `#Date:`; `date-local` and `time-local` use the stream's zone. `-` is null,
`+` is kept. Quoted fields may contain spaces. Directives are not records. A line with another number of
fields than the preceding directive is an error; so is one before any directive. If reading begins in the
middle of a file, the reader provides the preceding directives (`head`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.base import Parsed, join_parsed, sample
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.parsers.pattern_formats.patterns import LinePattern, extract
from elfmesh.ingest.parsers.text_fields import Kept, TextOptions, TextParser, Texts

FIELDS_MAX = 200
DIRECTIVE, FIELDS = ord("#"), "#Fields:"
_CELL = r'(?:"(?:[^"]|"")*"|[^\s"]\S*)'
_DATE = re.compile(r"^#Date:\s*(\d{4}-\d\d-\d\d)")
_TIMES = (("date", "time", "Z"), ("date_local", "time_local", ""))


class W3cParser(TextParser):
    """Parser of W3C extended logs; `head` is the part of the file before the first block."""

    name = "w3c"
    directed = True

    def __init__(self, source: str, host: str, options: TextOptions, *, head: bytes | None = None) -> None:
        super().__init__(source, host, options)
        self._header: tuple[str, ...] = ()
        self._pattern = LinePattern("")
        self._date = ""
        for text in Lines(head).texts() if head else ():
            self._obey(text)

    def known_columns(self) -> tuple[str, ...] | None:
        return self._header or None

    def header_columns(self, block: bytes) -> tuple[str, ...] | None:
        for text in Lines(block).texts():
            if text.startswith(FIELDS):
                return _columns(text)
        return ()

    def parse_lines(self, lines: Lines, columns: Sequence[str]) -> Parsed:
        """Parse section by section: all lines between two directives at once."""
        parts = [super(W3cParser, self).parse_lines(part, columns) for part in self._sections(lines)]
        return parts[0] if len(parts) == 1 else join_parsed(parts)

    def _sections(self, lines: Lines) -> Iterator[Lines]:
        marks: list[int] = np.flatnonzero(lines.buffer[lines.starts] == DIRECTIVE).tolist()
        begin = given = 0
        for mark in marks:
            if mark > begin:
                given += 1
                yield lines.part(lines.starts[begin:mark], lines.ends[begin:mark])
            self._obey(lines.text(mark))
            begin = mark + 1
        if begin < len(lines) or not given:
            yield lines.part(lines.starts[begin:], lines.ends[begin:])

    def _obey(self, text: str) -> None:
        if match := _DATE.match(text):
            self._date = match[1]
        elif text.startswith(FIELDS):
            names = _columns(text)
            if 0 < len(names) <= FIELDS_MAX:
                self._header = names
                fields: dict[str, tuple[str, ...]] = {}
                for number, name in enumerate(names):
                    fields.setdefault(name, (f"f{number}",))
                cells = r"[ \t]+".join(f"(?P<f{number}>{_CELL})" for number in range(len(names)))
                self._pattern = LinePattern(rf"^{cells}[ \t]*$", fields)

    def texts(self, lines: Lines, names: Sequence[str]) -> tuple[Mapping[str, Texts], Kept, list[str]]:
        if not self._header and len(lines):
            return {}, [], [sample(f"no {FIELDS} directive before", lines.text(0))]
        pair = next((each for each in _TIMES if each[1] in self._header), None)
        known = [name for name in names if name in self._header]
        asked = [*known, *(pair[:2] if pair and "ts" in names else ())]
        what = f"not {len(self._header)} fields"
        found, rows, samples = extract(lines, (self._pattern,), list(dict.fromkeys(asked)), what)
        fields = {name: _value(array) for name, array in found.items()}
        if pair and "ts" in names:
            day, clock, zone = fields[pair[0]], fields[pair[1]], pair[2]
            if pair[0] not in self._header:
                day = pa.array([self._date or None] * len(clock), pa.string())
            fields["ts"] = pc.binary_join_element_wise(day, pc.binary_join_element_wise(clock, zone, ""), " ")
        return {name: array for name, array in fields.items() if name in known or name == "ts"}, rows, samples


def _columns(directive: str) -> tuple[str, ...]:
    return tuple(column_name(word) for word in directive[len(FIELDS) :].split())


def column_name(word: str) -> str:
    """Return `cs(User-Agent)` as cs_user_agent."""
    return re.sub(r"\W+", "_", word.lower()).strip("_")


def _value(array: pa.Array) -> pa.Array:
    quoted = pc.starts_with(array, '"')
    if pc.any(quoted).as_py():
        inner = pc.replace_substring(pc.utf8_slice_codeunits(array, 1, -1), '""', '"')
        array = pc.if_else(quoted, inner, array)
    return pc.if_else(pc.equal(array, "-"), None, array)
