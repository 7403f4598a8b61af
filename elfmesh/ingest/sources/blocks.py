"""Whole-line blocks from files, compressed files and standard input, in constant memory.

A block is whole lines, in the file's order, of about `block_bytes`. A line longer than `line_bytes_max` is
never held: it is counted in `overlong`, with its beginning kept as a sample.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.sources.compressed import compression, decoded
from elfmesh.ingest.sources.position import FilePosition, SourceId
from elfmesh.limits import LINE_BYTES_MAX
from elfmesh.safeguards import safeguard

BLOCK_BYTES = 4 << 20
"""What each block costs once, whatever is in it, is then a few nanoseconds per line."""

POLL_BYTES = 2 * BLOCK_BYTES
OVERLONG_SAMPLE_BYTES = 120
LINE_PEEK_BYTES = 8 << 10
"""How far before the end of a block a line's end is looked for, so that the block needs no cutting."""


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines from one source.

    Attributes:
        data: the lines, over-long ones left out.
        source: path, or "-" for standard input.
        position: where the block begins, None when the source cannot be returned to (a pipe, compressed).
        end: the offset behind the block; 0 without a position.
        head: the first bytes of the file when the block is not its beginning, else None.
        mark: of `end`.
        stream: which stream it is from, where several are read for one job; else None.
    """

    data: bytes
    source: str
    position: FilePosition | None = None
    end: int = 0
    overlong: int = 0
    overlong_sample: bytes = b""
    head: bytes | None = None
    mark: bytes = b""
    stream: str | None = None

    @property
    def origin(self) -> SourceId | str:
        return self.position.id if self.position is not None else self.source

    @property
    def behind(self) -> FilePosition | None:
        return None if self.position is None else self.position.at(self.end, self.mark)


class LineCutter:
    """Turns chunks of bytes into blocks of whole lines. Holds at most one line's limit of bytes."""

    __slots__ = ("_dropped", "_limit", "_rest", "_whole", "overlong", "sample")

    def __init__(self, line_bytes_max: int = LINE_BYTES_MAX) -> None:
        self._limit = line_bytes_max
        self._rest = b""
        self._dropped = 0
        self.overlong = 0
        self.sample = b""
        self._whole = 0

    @property
    def taken(self) -> int:
        """Bytes of all whole lines so far, dropped ones included: the offset behind the last line's end."""
        return self._whole

    @property
    def held(self) -> int:
        return 0

    def flush(self) -> bytes:
        return b""

    @property
    def pending(self) -> int:
        """Bytes whose line has not ended, held or (of an over-long line) already dropped."""
        return len(self._rest) + self._dropped

    @safeguard("whole-lines")
    def push(self, chunk: bytes) -> bytes:
        if self._dropped:
            newline = chunk.find(b"\n")
            if newline < 0:
                self._dropped += len(chunk)
                return b""
            self._whole += self._dropped + newline + 1
            self.overlong += 1
            chunk = chunk[newline + 1 :]
            self._dropped = 0
        newline = chunk.rfind(b"\n")
        if newline < 0:
            self._hold(self._rest + chunk)
            return b""
        # A chunk that is whole lines passes as it is: at these speeds a copy costs as much as the reading.
        whole = newline + 1 == len(chunk)
        data = chunk if whole and not self._rest else b"".join((self._rest, memoryview(chunk)[: newline + 1]))
        self._whole += len(data)
        self._hold(chunk[newline + 1 :])
        return self._without_overlong(data) if len(data) > self._limit else data

    def finish(self) -> bytes:
        """The last line of a file that does not end in a newline; b"" if there is none."""
        data, self._rest = self._rest, b""
        self.overlong += self._dropped > 0
        self._whole += len(data) + self._dropped
        self._dropped = 0
        return data

    def take_overlong(self) -> tuple[int, bytes]:
        """How many over-long lines were left out since the last call, and the first one's beginning."""
        if not self.overlong:
            return 0, b""
        found = self.overlong, self.sample
        self.overlong, self.sample = 0, b""
        return found

    def _hold(self, rest: bytes) -> None:
        self._rest = rest
        if len(rest) > self._limit:
            self.sample = self.sample or rest[:OVERLONG_SAMPLE_BYTES]
            self._rest = b""
            self._dropped = len(rest)

    def _without_overlong(self, data: bytes) -> bytes:
        """Blocks are at most a few limits long, so the search for long lines hops from limit to limit."""
        kept: list[bytes] = []
        start = clean = 0
        while len(data) - start > self._limit:
            newline = data.rfind(b"\n", start, start + self._limit + 1)
            if newline >= 0:
                start = newline + 1
                continue
            end = data.find(b"\n", start) + 1 or len(data)
            self.overlong += 1
            self.sample = self.sample or data[start : min(end, start + OVERLONG_SAMPLE_BYTES)]
            kept.append(data[clean:start])
            start = clean = end
        if not clean:
            return data
        kept.append(data[clean:])
        return b"".join(kept)


def read_blocks(
    path: str,
    *,
    block_bytes: int = BLOCK_BYTES,
    line_bytes_max: int = LINE_BYTES_MAX,
    new_cutter: Callable[[int], LineCutter] = LineCutter,
    stdin: BinaryIO | None = None,
    on_bytes: Callable[[int], None] | None = None,
) -> Generator[Block]:
    """All lines of a file in blocks; a last line without newline counts.

    The path is a file, plain or compressed with gzip or zstd, or "-" for standard input. `new_cutter` cuts at
    the ends of records, where these are not lines. `on_bytes` receives the number of bytes taken from the
    file, before decompression, each time.

    Raises:
        RuntimeFailure: the file is missing or must not be read, standard input is closed.
        DataError: the compressed file is damaged or cut off.
    """
    cutter = new_cutter(line_bytes_max)
    held: Block | None = (
        None  # a last line without newline comes with the lines before it, but no reader waits for it
    )
    waits = is_pipe(path)
    for chunk in _chunks(path, block_bytes, stdin, on_bytes or _ignore):
        data = cutter.push(chunk)
        overlong, start = cutter.take_overlong()
        if held is not None:
            yield held
        held = Block(data, path, overlong=overlong, overlong_sample=start) if data or overlong else None
        if held is not None and waits:
            yield held
            held = None
    last = cutter.finish()
    overlong, start = cutter.take_overlong()
    if held is not None and last:
        held, last = replace(held, data=held.data + last), b""
    if held is not None:
        yield held
    if last or overlong:
        yield Block(last, path, overlong=overlong, overlong_sample=start)


def is_compressed(path: str) -> bool:
    """Whether a regular file is compressed; a pipe is not asked, it would lose its first bytes."""
    if path == "-" or not Path(path).is_file():
        return False
    with _open(path) as file:
        return bool(compression(file.read(4)))


def _ignore(count: int) -> None: ...


def _chunks(path: str, size: int, stdin: BinaryIO | None, on_bytes: Callable[[int], None]) -> Iterator[bytes]:
    if path == "-":
        if stdin is None or stdin.closed:
            raise RuntimeFailure("standard input is closed", hint="Give a log file, or pipe one in.")
        yield from decoded(stdin, path, size, on_bytes)
        return
    with _open(path) as file:
        plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if not plain or compression(os.pread(file.fileno(), 4, 0)):
            yield from decoded(file, path, size, on_bytes)
            return
        offset = 0
        while chunk := read_whole_lines(file.fileno(), offset, size):
            offset += len(chunk)
            on_bytes(len(chunk))
            yield chunk


def read_whole_lines(fd: int, offset: int, size: int) -> bytes:
    """Up to `size` bytes of a file from `offset`: to the end of a line if one ends near there."""
    if size > 2 * LINE_PEEK_BYTES:
        at = offset + size - LINE_PEEK_BYTES
        peek = os.pread(fd, LINE_PEEK_BYTES, at)
        newline = peek.rfind(b"\n")
        if newline >= 0 and len(peek) == LINE_PEEK_BYTES:
            size = at + newline + 1 - offset
    return os.pread(fd, size, offset)


def check_readable(path: str) -> None:
    """Raise what `read_blocks` would raise when it opened the file.

    A pipe is only looked at: to open and close it would take its reader from the process that writes into it.
    """
    if path == "-":
        return
    if not is_pipe(path):
        _open(path).close()
    elif not os.access(path, os.R_OK):
        raise _forbidden(path)


def is_pipe(path: str) -> bool:
    return path == "-" or Path(path).is_fifo()


def _open(path: str) -> BinaryIO:
    try:
        return Path(path).open("rb")
    except FileNotFoundError:
        raise RuntimeFailure("no such file", where=path, hint="Check the path.") from None
    except PermissionError:
        raise _forbidden(path) from None
    except IsADirectoryError:
        raise RuntimeFailure(
            "is a directory", where=path, hint=f"Name its files: {path.rstrip('/')}/*.log"
        ) from None


def _forbidden(path: str) -> RuntimeFailure:
    return RuntimeFailure("permission denied", where=path, hint="Check the permissions of the file.")
