"""Records cut from bytes."""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.sources.records import RecordCutter


def cut(framing: Framing, data: bytes, sizes: Sequence[int]) -> list[bytes]:
    """The blocks of some data that comes in pieces."""
    cutter = RecordCutter(framing=framing)
    blocks, at = [], 0
    for size in [*sizes, len(data)]:
        before = cutter.taken
        block = cutter.push(data[at : at + size])
        at += size
        assert cutter.taken == before + len(block)
        assert cutter.taken + cutter.pending == min(at, len(data))
        blocks.append(block)
    return [block for block in [*blocks, cutter.finish()] if block]
