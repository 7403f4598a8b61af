"""Framing: rules for records of several lines, for reading and parsing (D-1).

A record extends from the beginning of its first line to the end of its last one; offsets are always at the
beginning of a record. The reader and the parser apply the same rule to the same bytes, so reading again from
any offset gives the same records. A record that reaches a limit ends there. The timeout ends a record that is
followed by nothing, and the offset after it is stored. Blank lines belong to the surrounding record.

    start:PATTERN      a line that matches begins a record
    continue:PATTERN   a line that matches continues the record before it
    indent             a line that begins with a space or tab continues the record
    timestamp          a line that begins with a date or time begins a record
    trace              indented lines, `Caused by:` and similar continue: stack traces of Java, .NET and Go
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct

from elfmesh.arrow_kernels import pc
from elfmesh.errors import ConfigError
from elfmesh.ingest.parsers.lines import BYTE_ORDER_MARK, Lines, Positions
from elfmesh.limits import LINE_BYTES_MAX

LINES_MAX = 1000
BYTES_MAX = LINE_BYTES_MAX
TIMEOUT_S = 1.0
_ASCII = bytes(range(128)) + b"?" * 128
_TRACE = (
    r"^(?:[ \t]|Caused by:|Suppressed:|\.\.\. \d+ (?:more|common)|--- End of |goroutine \d+ \[|\}|\)"
    r"|created by )"
)
_STAMP = (
    r"^[\[(<\"']?(?:\d{4}[-/.]\d\d[-/.]\d\d|\d{1,2}[/. -](?:\d\d|[A-Z][a-z]{2})[/. -]\d{2,4}"
    r"|[A-Z][a-z]{2},? (?:[A-Z][a-z]{2} )? ?\d{1,2}"
    r"|\d\d:\d\d:\d\d|\d{8}[T ]|[IWEF]\d{4} |\d{10})"
)


class RecordBounds(Struct, frozen=True):
    """Limits of a record: non-blank lines, and bytes."""

    lines: int = LINES_MAX
    nbytes: int = BYTES_MAX


class Framing(ABC):
    """Rule for records of several lines; after `timeout_s` without growth, a file's last record ends."""

    def __init__(self, bounds: RecordBounds | None = None, timeout_s: float = TIMEOUT_S) -> None:
        self.bounds = bounds or RecordBounds()
        self.timeout_s = timeout_s

    @abstractmethod
    def complete(self, data: bytes) -> int:
        """Return how many of the first bytes of `data`, which begins with a record, are complete records."""

    def fresh(self) -> Framing:
        """Return the rule for another file; a rule that learns from its file starts without knowledge."""
        return self

    def merge(self, lines: Lines) -> Lines:
        return lines


class LineFraming(Framing):
    """Rule for adjacent lines: a match of an RE2 pattern begins a record, or continues one."""

    def __init__(
        self, pattern: str, *, begins: bool, bounds: RecordBounds | None = None, timeout_s: float = TIMEOUT_S
    ) -> None:
        super().__init__(bounds, timeout_s)
        self._pattern, self._begins = pattern, begins
        try:
            self._matches(pa.array([""]))
        except pa.ArrowInvalid as error:
            reason = str(error).removeprefix("Invalid regular expression: ")
            raise ConfigError(
                f"the pattern {pattern!r} is not valid: {reason}", where="multiline", hint="RE2 syntax."
            ) from None

    def complete(self, data: bytes) -> int:
        lines, skipped = raw_lines(data)
        firsts = self._firsts(lines)
        return int(lines.starts[firsts[-1]]) + skipped if len(firsts) > 1 else 0

    def merge(self, lines: Lines) -> Lines:
        firsts = self._firsts(lines)
        if len(firsts) == len(lines):
            return lines
        lasts = np.append(firsts[1:], len(lines)) - 1
        return lines.part(lines.starts[firsts], lines.ends[lasts])

    def _matches(self, texts: pa.Array) -> Any:
        found = pc.match_substring_regex(texts, self._pattern).to_numpy(zero_copy_only=False)
        return found if self._begins else ~found

    def _firsts(self, lines: Lines) -> Positions:
        if not len(lines):
            return np.zeros(0, np.int64)
        begins = self._matches(lines.raw())
        begins[0] = True
        firsts = np.flatnonzero(begins)
        counts = np.diff(np.append(firsts, len(lines)))
        ends = lines.starts[np.append(firsts[1:], len(lines)) - 1]
        large = (counts > self.bounds.lines) | (ends - lines.starts[firsts] >= self.bounds.nbytes)
        if not large.any():
            return firsts
        more = [self._split(lines, int(firsts[at]), int(counts[at])) for at in np.flatnonzero(large).tolist()]
        return np.sort(np.concatenate([firsts, *more]))

    def _split(self, lines: Lines, first: int, count: int) -> Positions:
        found: list[int] = []
        starts = lines.starts[first : first + count]
        at = 0
        while at < count:
            far = int(np.searchsorted(starts, starts[at] + self.bounds.nbytes))
            at = min(at + self.bounds.lines, max(far, at + 1))
            if at < count:
                found.append(first + at)
        return np.array(found, np.int64)


class PartFraming(Framing):
    """Rule for container logs: a partial line continues in the next line of the same output stream.

    Records of two output streams may overlap. At a limit, the record that began first ends first. Partial
    lines match `partial` and, if given, not `unless`.
    """

    def __init__(
        self, stream: str, partial: str, unless: str = "", bounds: RecordBounds | None = None
    ) -> None:
        super().__init__(bounds)
        self._stream, self._partial, self._unless = stream, partial, unless

    def complete(self, data: bytes) -> int:
        """Return the position of the first record that is open or ends after the start of an open one."""
        lines, skipped = raw_lines(data)
        numbers, opened = self.records(lines)
        if not opened:
            return len(data)
        first = int(np.flatnonzero(numbers == min(opened))[0])
        while (behind := numbers[first:].min()) < numbers[first]:
            first = int(np.flatnonzero(numbers == behind)[0])
        return int(lines.starts[first]) + skipped

    def records(self, lines: Lines) -> tuple[Positions, Sequence[int]]:
        """Return the number of each line's record, in the order of their beginnings, and the open records."""
        numbers = np.arange(len(lines))
        if not len(lines):
            return numbers, ()
        texts = lines.raw()
        partial = pc.match_substring_regex(texts, self._partial)
        if self._unless:
            partial = pc.and_not(partial, pc.match_substring_regex(texts, self._unless))
        marks = partial.to_numpy(zero_copy_only=False)
        if not marks.any():
            return numbers, ()
        names = pc.extract_regex(texts, self._stream).field("stream").to_pylist()
        return self._walk(lines.starts.tolist(), names, marks.tolist())

    def _walk(
        self, starts: Sequence[int], names: Sequence[str | None], marks: Sequence[bool]
    ) -> tuple[Positions, Sequence[int]]:
        numbers: list[int] = []
        opened: dict[str | None, tuple[int, int, int]] = {}
        count = 0
        for start, name, mark in zip(starts, names, marks, strict=True):
            for each, (_, began, length) in list(opened.items()):
                if start - began >= self.bounds.nbytes or length >= self.bounds.lines:
                    del opened[each]
            number, began, length = opened.pop(name, (count, start, 0))
            count += number == count
            numbers.append(number)
            if mark:
                opened[name] = (number, began, length + 1)
        return np.array(numbers, np.int64), [number for number, _, _ in opened.values()]


def raw_lines(data: bytes) -> tuple[Lines, int]:
    """Return the lines of some bytes, with offsets into these, and the number of bytes before the lines.

    Malformed UTF-8 is replaced by equally many question marks, so that offsets do not change.
    """
    body = data.removeprefix(BYTE_ORDER_MARK)
    lines = Lines(body)
    if lines.replaced:
        lines = Lines(b"\n".join(_same_length(line) for line in body.split(b"\n")))
    return lines, len(data) - len(body)


def _same_length(line: bytes) -> bytes:
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.translate(_ASCII)
    return line


def parse_framing(
    spec: str, *, bounds: RecordBounds | None = None, timeout_s: float = TIMEOUT_S
) -> Framing | None:
    """Parse a `multiline` setting; None for "". Raises ConfigError for an unknown rule or invalid RE2."""
    if not spec:
        return None
    kind, colon, pattern = spec.partition(":")
    fixed = {"indent": (r"^[ \t]", False), "trace": (_TRACE, False), "timestamp": (_STAMP, True)}
    if kind in fixed and not colon:
        pattern, begins = fixed[kind]
    elif kind in ("start", "continue") and pattern:
        begins = kind == "start"
    else:
        raise ConfigError(
            f"{spec!r} is not a multiline rule",
            where="multiline",
            hint="start:PATTERN, continue:PATTERN, indent, timestamp or trace.",
        )
    return LineFraming(pattern, begins=begins, bounds=bounds, timeout_s=timeout_s)
