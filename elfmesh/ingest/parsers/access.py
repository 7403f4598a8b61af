r"""Web server access logs: Common Log Format and Combined Log Format.

    host ident user [17/May/2015:10:05:03 +0000] "GET /path HTTP/1.1" 200 1234 "referer" "agent" any more

The native scanner (see `scanner`), or else numpy over all lines of a block, reads the lines in which every
field has an unambiguous position. Other lines are matched by a regular expression, which is the definition; a
property test compares the three. The request is split at spaces: method, path, ..., protocol; without a space
all of it is the path. `bytes` "-" is null. Escapes are kept. A combined line that was truncated in referer or
agent is valid. More fields may follow.

Deviation: the design notes measured pyarrow.csv with delimiter ' ' for this. It merges lines at an unbalanced
quote, unescapes `\x22`, and needs a fixed number of fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers.base import (
    TIMESTAMP,
    LazyArrays,
    ParsedColumns,
    Parser,
    read_each,
    sample,
    strings,
)
from elfmesh.ingest.parsers.cells import Grid, event_times
from elfmesh.ingest.parsers.lines import SPACE, Lines, Positions

COMMON_COLUMNS = ("host", "ident", "user", "ts", "method", "path", "protocol", "status", "bytes", "request")
COMBINED_COLUMNS = (*COMMON_COLUMNS[:-1], "referer", "agent", "request")
INTEGERS = ("status", "bytes")
VHOST_COLUMNS = ("vhost", "port")
QUOTE, BACKSLASH, OPEN, CLOSE, DASH, ZERO, NINE = b'"\\[]-09'
DIGITS_MAX = 18
"""Digits of a byte count that always fit into int64."""

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_HEAD = r"([^ ]+) ([^ ]+) (.+?) \[(.*?)\] "
_NUMBERS = rf" ([0-9]{{3}}) ([0-9]{{1,{DIGITS_MAX}}}|-)"
_CUT = r'"((?:[^"\\]|\\.)*\\?)(?:"|\z)'
_COMMON = r"(?: |\z)"
_COMBINED = rf"(?:\z| (?:{_CUT}(?: {_CUT})?)?)"

_TYPES = dict.fromkeys(INTEGERS, pa.int64())
Mask = np.ndarray[Any, np.dtype[np.bool_]]


@cache
def _compiled(end: str) -> list[Any]:
    """Compile the definition of a line for RE2, because Python's `re` can take minutes for 16 KB."""
    import re2

    return [re2.compile(_HEAD + request + _NUMBERS + end) for request in (_QUOTED, r'"(.*?)"')]


class AccessParser(Parser):
    """Parser of `combined` (the default) or `common` access logs."""

    stateless = True

    def __init__(self, source: str = "", host: str = "", *, combined: bool = True) -> None:
        super().__init__(source, host)
        self.name = "combined" if combined else "common"
        self._combined = combined
        self._patterns = _compiled(_COMBINED if combined else _COMMON)
        self._known = COMBINED_COLUMNS if combined else COMMON_COLUMNS

    def known_columns(self) -> tuple[str, ...] | None:
        return self._known

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        """Read unambiguous lines by the fast path and the others line by line.

        Rows keep the order of the lines.
        """
        names = [name for name in wanted if name in self._known]
        if not len(lines):
            return ParsedColumns({name: _empty(name) for name in names})
        if lines.scan is not None:
            return self._scanned(lines, names)
        scan = _Scan(lines, self._combined)
        if scan.certain.all():
            return ParsedColumns({name: scan.column(name) for name in names})
        slow_rows, slow, samples = self._slow(lines, np.flatnonzero(~scan.certain), names)
        scan.keep()
        order = np.argsort(np.concatenate([scan.rows, slow_rows]), kind="stable")
        rows = np.concatenate([scan.rows, slow_rows])[order]
        take = pa.array(order)
        arrays = {name: pa.concat_arrays([scan.column(name), slow[name]]).take(take) for name in names}
        return ParsedColumns(arrays, rows, samples)

    def _scanned(self, lines: Lines, names: Sequence[str]) -> ParsedColumns:
        count = len(lines)
        grid = Grid(lines.scan, lines.data, len(names), count)
        wanted = bytes(COMBINED_COLUMNS.index(name) for name in names)
        refused = np.empty(count, np.int64)
        open_lines = lines.scan.access(
            self._combined, lines.data, lines.starts, lines.ends, wanted, grid.kinds, grid.words, refused
        )
        slow, records, samples = self._matches(lines, refused[:open_lines])
        for row, record in zip(slow, records, strict=True):
            for slot, name in enumerate(names):
                text = record.get(name)
                grid.put(slot, row, int(text) if text is not None and name in INTEGERS else text)
        rows = grid.drop(refused[:open_lines], slow)
        fields = {name: grid.field([slot]) for slot, name in enumerate(names)}
        makers = {
            name: field.times if name == "ts" else partial(field.column, _TYPES.get(name, pa.string()))
            for name, field in fields.items()
        }
        return ParsedColumns(LazyArrays(makers), rows, samples)

    def _slow(
        self, lines: Lines, candidates: Positions, names: Sequence[str]
    ) -> tuple[Positions, dict[str, pa.Array], list[str]]:
        rows, records, samples = self._matches(lines, candidates)
        arrays = {name: _typed(name, [record.get(name) for record in records]) for name in names}
        return np.array(rows, np.int64), arrays, samples

    def _matches(
        self, lines: Lines, candidates: Positions
    ) -> tuple[list[int], list[dict[str, str | None]], list[str]]:
        what = f"not a line of the {self.name} log format"
        return read_each(lines.numbered(candidates.tolist()), self._match, lambda text: sample(what, text))

    def _match(self, text: str) -> dict[str, str | None] | None:
        match = self._patterns[0].match(text) or self._patterns[1].match(text)
        if match is None:
            return None
        host, ident, user, ts, request, status, size, *agents = match.groups()
        words = [word for word in request.split(" ") if word]
        whole = len(words) < 2
        record: dict[str, str | None] = {
            "host": host,
            "ident": ident,
            "user": user,
            "ts": ts,
            "method": "" if whole else words[0],
            "path": request if whole else words[1],
            "protocol": words[-1] if len(words) > 2 else None,
            "status": status,
            "bytes": None if size == "-" else size,
            "request": request,
        }
        if agents:
            record["referer"], record["agent"] = agents
        return record


def _empty(name: str) -> pa.Array:
    return pa.array([], TIMESTAMP if name == "ts" else pa.int64() if name in INTEGERS else pa.string())


def _typed(name: str, values: list[str | None]) -> pa.Array:
    if name == "ts":
        return event_times(strings(values))
    if name in INTEGERS:
        return pa.array([None if value is None else int(value) for value in values], pa.int64())
    return strings(values)


class _Scan:
    """Positions of every field of every line, and the lines in which they are unambiguous.

    The positions of other lines are meaningless until `keep` has dropped these lines.
    """

    def __init__(self, lines: Lines, combined: bool) -> None:
        buffer, starts, ends = lines.buffer, lines.starts, lines.ends
        self._lines = lines
        past = len(lines.data)
        spaces = _positions(lines, SPACE, past)
        quotes = _positions(lines, QUOTE, past)
        head = np.searchsorted(spaces, starts)
        s1, s2, s3, s5 = spaces[head], spaces[head + 1], spaces[head + 2], spaces[head + 4]
        mark = np.searchsorted(quotes, starts)
        q0, q1 = quotes[mark], quotes[mark + 1]
        words = np.searchsorted(spaces, q0)
        r1, r2, r3, r4 = (spaces[words + k] for k in range(4))
        last = spaces[words + 4]
        certain: Mask = (q1 < ends) & (s1 > starts) & (s2 > s1 + 1) & (s3 > s2 + 1) & (s5 == q0 - 1)
        certain &= (buffer[s3 + 1] == OPEN) & (buffer[s5 - 1] == CLOSE)
        certain &= (r1 > q0 + 1) & (r2 > r1 + 1) & (r2 < q1 - 1) & (r3 == q1 + 1)
        certain &= (buffer[q1 - 1] != BACKSLASH) & (r4 == r3 + 4)
        if combined:
            q2, q3, q4, q5 = (quotes[mark + k] for k in range(2, 6))
            size_end = q2 - 1
            certain &= (q5 < ends) & (last == size_end) & (q4 == q3 + 2) & (buffer[q3 + 1] == SPACE)
            certain &= (buffer[q3 - 1] != BACKSLASH) & (buffer[q5 - 1] != BACKSLASH)
            certain &= (q5 + 1 == ends) | (buffer[q5 + 1] == SPACE)
        else:
            q2 = q3 = q4 = q5 = q1
            size_end = np.minimum(last, ends)
        self.spans = {
            "host": (starts, s1),
            "ident": (s1 + 1, s2),
            "user": (s2 + 1, s3),
            "ts": (s3 + 2, s5 - 1),
            "method": (q0 + 1, r1),
            "path": (r1 + 1, r2),
            "protocol": (r2 + 1, q1),
            "status": (r3 + 1, r4),
            "bytes": (r4 + 1, size_end),
            "referer": (q2 + 1, q3),
            "agent": (q4 + 1, q5),
            "request": (q0 + 1, q1),
        }
        self.rows: Positions = np.arange(len(starts))
        self._numbers: dict[str, tuple[Positions, Mask]] = {}
        for name in INTEGERS:
            value, missing, valid = _integers(lines, *self.spans[name], dash=name == "bytes")
            self._numbers[name] = value, missing
            certain &= valid
        self.certain: Mask = certain

    def keep(self) -> None:
        keep = self.certain
        self.rows = np.flatnonzero(keep)
        self.spans = {name: (start[keep], end[keep]) for name, (start, end) in self.spans.items()}
        self._numbers = {name: (value[keep], null[keep]) for name, (value, null) in self._numbers.items()}

    def column(self, name: str) -> pa.Array:
        if name == "ts":
            return event_times(self._lines.cut(*self.spans["ts"]))
        if name in INTEGERS:
            value, missing = self._numbers[name]
            return pa.array(value, pa.int64(), mask=missing)
        return self._lines.cut(*self.spans[name])


def _positions(lines: Lines, byte: int, past: int) -> Positions:
    """Return the positions of a byte, with enough sentinels at the end to read a few more."""
    found = np.flatnonzero(lines.buffer[:past] == byte)
    return np.concatenate([found, np.full(8, past, found.dtype)])


def _integers(
    lines: Lines, starts: Positions, ends: Positions, *, dash: bool
) -> tuple[Positions, Mask, Mask]:
    buffer = lines.buffer
    lengths = ends - starts
    valid: Mask = (lengths > 0) & (lengths <= DIGITS_MAX)
    missing: Mask = (lengths == 1) & (buffer[starts] == DASH) & dash
    values = np.zeros(len(starts), np.int64)
    usable = np.where(valid, lengths, 0)
    for place in range(int(usable.max(initial=0))):
        here = usable > place
        digit = buffer[np.where(here, starts + place, 0)].astype(np.int64)
        valid &= ~here | ((digit >= ZERO) & (digit <= NINE)) | missing
        values = np.where(here, values * 10 + digit - ZERO, values)
    return np.where(missing, 0, values), missing, valid


class VhostParser(AccessParser):
    """Parser of access logs with the virtual host first, as Apache's `%v:%p` or `%v` write it."""

    def __init__(self, source: str = "", host: str = "", *, combined: bool = True) -> None:
        super().__init__(source, host, combined=combined)
        self.name = f"vhost_{self.name}"

    def known_columns(self) -> tuple[str, ...] | None:
        return (*VHOST_COLUMNS, *self._known)

    def columns(self, lines: Lines, wanted: Sequence[str]) -> ParsedColumns:
        spaces = _positions(lines, SPACE, len(lines.data))
        gaps = np.minimum(spaces[np.searchsorted(spaces, lines.starts)], lines.ends)
        found = super().columns(lines.part(np.minimum(gaps + 1, lines.ends), lines.ends), wanted)
        if not any(name in VHOST_COLUMNS for name in wanted):
            return found
        rows = slice(None) if found.rows is None else found.rows
        names = lines.cut(lines.starts[rows], gaps[rows])
        parts = pc.extract_regex(names, r"^(?P<vhost>.*?)(?::(?P<port>\d{1,5}))?$")
        port = parts.field("port")
        arrays = {
            "vhost": parts.field("vhost"),
            "port": pc.cast(pc.if_else(pc.equal(port, ""), None, port), pa.int64()),
        }
        merged = {name: partial(found.arrays.__getitem__, name) for name in found.arrays}
        merged |= {name: partial(arrays.__getitem__, name) for name in VHOST_COLUMNS}
        return ParsedColumns(LazyArrays(merged), found.rows, found.samples)
