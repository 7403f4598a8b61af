"""Search for the last directive before a position in a file, for formats whose lines depend on directives."""

from __future__ import annotations

import os

from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.contents import READ_ONLY, is_compressed

CHUNK_BYTES = 1 << 20
LINE_BYTES = 64 << 10
"""Longest directive."""


def head_before(block: Block, directive: bytes) -> bytes | None:
    """Return what the parser of a block needs of the file before it: its beginning, and the last directive.

    `directive` is the prefix of directives; b"" if the format has none. Reads backwards to the last
    directive.
    """
    if block.head is None or not directive or block.position is None:
        return block.head
    line = last_directive(block.source, block.position.offset, directive)
    return block.head + b"\n" + line if line else block.head


def last_directive(path: str, offset: int, directive: bytes) -> bytes:
    """Return the last directive before an offset; b"" if there is none, or if the file has vanished."""
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
