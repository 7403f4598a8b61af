"""Blocks of complete lines from files, compressed files and standard input, in constant memory.

A block contains complete lines in the file's order, about `block_bytes` in total. A line longer than
`line_bytes_max` is never kept in memory: it is counted in `overlong`, with its beginning as a sample.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.errors import RuntimeFailure
from elfmesh.ingest.sources.compressed import compression, decoded
from elfmesh.ingest.sources.position import FilePosition, SourceId
from elfmesh.limits import LINE_BYTES_MAX
from elfmesh.safeguards import safeguard

BLOCK_BYTES = 4 << 20
"""Size of a block; the constant cost per block is then a few nanoseconds per line."""

POLL_BYTES = 2 * BLOCK_BYTES
OVERLONG_SAMPLE_BYTES = 120
LINE_PEEK_BYTES = 8 << 10
"""Bytes before the end of a block in which a line's end is searched, so that the block needs no copy."""


class Block(Struct, frozen=True):
    """Complete lines from one source.

    Attributes:
        data: the lines, without over-long ones.
        source: path, or "-" for standard input.
        position: start of the block, None if the source cannot be read again (a pipe, compressed).
        end: the offset after the block; 0 without a position.
        head: the first bytes of the file if the block is not its beginning, else None.
        mark: mark of `end`.
        stream: stream of the block, if a job reads several; else None.
        cut: whether the last record ends because nothing followed it; it may go on.
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
    cut: bool = False

    @property
    def origin(self) -> SourceId | str:
        return self.position.id if self.position is not None else self.source

    @property
    def behind(self) -> FilePosition | None:
        return None if self.position is None else self.position.at(self.end, self.mark)


class LineCutter:
    """Converter from chunks of bytes to blocks of complete lines.

    It keeps at most one line's limit of bytes.
    """

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
        """Return the bytes of all complete lines so far, also dropped ones: the offset after the last."""
        return self._whole

    @property
    def held(self) -> int:
        return 0

    def flush(self) -> bytes:
        return b""

    @property
    def pending(self) -> int:
        """Return the bytes of the incomplete line, kept or (if it is over-long) already dropped."""
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
        # A chunk of complete lines is passed on uncopied, because a copy would cost as much as reading it.
        whole = newline + 1 == len(chunk)
        data = chunk if whole and not self._rest else b"".join((self._rest, memoryview(chunk)[: newline + 1]))
        self._whole += len(data)
        self._hold(chunk[newline + 1 :])
        return self._without_overlong(data) if len(data) > self._limit else data

    def finish(self) -> bytes:
        """Return the last line if it has no newline at the end; b"" otherwise."""
        data, self._rest = self._rest, b""
        self.overlong += self._dropped > 0
        self._whole += len(data) + self._dropped
        self._dropped = 0
        return data

    def take_overlong(self) -> tuple[int, bytes]:
        """Return how many over-long lines were dropped since the last call, and the first one's beginning."""
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
        """Drop over-long lines.

        Blocks have at most a few times the limit, so the search jumps by the limit.
        """
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
    eager: bool = False,
) -> Generator[Block]:
    """Yield all lines of a file in blocks; a last line without newline is included.

    The path is a file, plain or compressed with gzip or zstd, or "-" for standard input. `new_cutter` makes a
    cutter for records of several lines. `on_bytes` receives the number of bytes of each read, before
    decompression. If `eager`, a block is what a pipe has at the time; otherwise it is as large as possible.

    Raises:
        RuntimeFailure: The file is missing or unreadable, or standard input is closed.
        DataError: The compressed file is damaged or truncated.
    """
    cutter = new_cutter(line_bytes_max)
    held: Block | None = None  # a last line without newline is yielded with earlier lines
    waits = is_pipe(path)
    for chunk in _chunks(path, block_bytes, stdin, on_bytes or _ignore, eager=eager):
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
    """Return whether a regular file is compressed.

    Pipes are not tested, because that would consume their bytes.
    """
    if path == "-" or not Path(path).is_file():
        return False
    with _open(path) as file:
        return bool(compression(file.read(4)))


def _ignore(count: int) -> None: ...


def _chunks(
    path: str, size: int, stdin: BinaryIO | None, on_bytes: Callable[[int], None], *, eager: bool
) -> Iterator[bytes]:
    if path == "-":
        if stdin is None or stdin.closed:
            raise RuntimeFailure("standard input is closed", hint="Give a log file, or pipe one in.")
        yield from decoded(stdin, path, size, on_bytes, eager=eager)
        return
    with _open(path) as file:
        plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        if not plain or compression(os.pread(file.fileno(), 4, 0)):
            yield from decoded(file, path, size, on_bytes, eager=eager)
            return
        offset = 0
        while chunk := read_whole_lines(file.fileno(), offset, size):
            offset += len(chunk)
            on_bytes(len(chunk))
            yield chunk


def read_whole_lines(fd: int, offset: int, size: int) -> bytes:
    """Return up to `size` bytes of a file from `offset`, up to the end of a line if one is near the end."""
    if size > 2 * LINE_PEEK_BYTES:
        at = offset + size - LINE_PEEK_BYTES
        peek = os.pread(fd, LINE_PEEK_BYTES, at)
        newline = peek.rfind(b"\n")
        if newline >= 0 and len(peek) == LINE_PEEK_BYTES:
            size = at + newline + 1 - offset
    return os.pread(fd, size, offset)


def check_readable(path: str) -> None:
    """Raise what `read_blocks` would raise when it opens the file.

    A pipe is not opened, because its writer would lose its reader when the pipe is closed.
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
