"""Finds the last directive before a place in the middle of a file, for formats whose lines depend on it."""

from __future__ import annotations

import os

from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.contents import READ_ONLY, is_compressed

CHUNK_BYTES = 1 << 20
LINE_BYTES = 64 << 10
"""Of a directive: none is longer."""


def head_before(block: Block, directive: bytes) -> bytes | None:
    """What the parser of a block must know of the file before it: its beginning, and the last directive.

    `directive` is how such lines begin; b"" where the format has none. Reads back to the last directive.
    """
    if block.head is None or not directive or block.position is None:
        return block.head
    line = last_directive(block.source, block.position.offset, directive)
    return block.head + b"\n" + line if line else block.head


def last_directive(path: str, offset: int, directive: bytes) -> bytes:
    """The last line before an offset that begins so; b"" if there is none, or the file is gone."""
    if is_compressed(path):
        return b""
    try:
        fd = os.open(path, READ_ONLY)
    except OSError:
        return b""
    try:
        end = offset
        while end > 0:
            start = max(0, end - CHUNK_BYTES)
            overlap = len(directive) if end < offset else 0
            data = os.pread(fd, end - start + overlap, start)
            at = data.rfind(b"\n" + directive)
            if at >= 0 or (start == 0 and data.startswith(directive)):
                begin = start + at + 1
                return os.pread(fd, min(LINE_BYTES, offset - begin), begin).split(b"\n", 1)[0]
            end = start
        return b""
    finally:
        os.close(fd)
