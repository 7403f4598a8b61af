"""Converts blocks of a log to archive rows with the source position of each record (D-2).

`_device`, `_inode`, `_generation` and `_offset` are the source position. They identify a row across crashes
and archives. `_path` and `_host` are for display. Each record of the block that is not blank is one row, in
order; lines that are too long are only counted.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ingest.parsers import Parsed
from elfmesh.ingest.parsers.framing import Framing
from elfmesh.ingest.parsers.lines import Lines
from elfmesh.ingest.sources import Block
from elfmesh.ingest.sources.position import FilePosition

RAW = "_raw"
NEWLINE = 10


def raw_rows(block: Block, framing: Framing | None, host: str) -> pa.Table:
    lines = _lines(block, framing)
    return _table(block, lines, host, {RAW: lines.raw()})


def parsed_rows(
    block: Block, framing: Framing | None, host: str, parsed: Parsed, columns: Sequence[str]
) -> pa.Table:
    """Return the parsed columns of a block, and the line itself if it was not parsed or a value did not fit.

    `parsed` must come from the same block, with `columns` and RAW. Columns without any value are left out.
    """
    lines = _lines(block, framing)
    total = len(lines)
    found = {name: parsed.arrays[name] for name in columns}
    kept = pa.nulls(parsed.rows, pa.string())
    if parsed.unfit:
        unfit = np.zeros(parsed.rows, np.bool_)
        unfit[list(parsed.unfit)] = True
        kept = pc.if_else(pa.array(unfit), parsed.arrays[RAW], None)
    if parsed.rows < total:
        raw = lines.raw()
        places = _places(raw.to_pylist(), parsed.arrays[RAW].to_pylist())
        taken = pa.array(places, pa.int64())
        found = {name: column.take(taken) for name, column in found.items()}
        found[RAW] = pc.if_else(taken.is_null(), raw, kept.take(taken))
    else:
        found[RAW] = kept
    return _table(
        block,
        lines,
        host,
        {name: column for name, column in found.items() if not pa.types.is_null(column.type)},
    )


def _lines(block: Block, framing: Framing | None) -> Lines:
    lines = Lines(block.data)
    return lines if framing is None else framing.merge(lines)


def _places(lines: Sequence[str], good: Sequence[str]) -> list[int | None]:
    places: list[int | None] = []
    row = 0
    for line in lines:
        if row < len(good) and line == good[row]:
            places.append(row)
            row += 1
        else:
            places.append(None)
    return places


def _table(block: Block, lines: Lines, host: str, columns: dict[str, pa.Array]) -> pa.Table:
    position = block.position
    assert position is not None, "files are followed by position"
    count = len(lines)
    identity = {
        "_host": pa.repeat(pa.scalar(host), count),
        "_path": pa.repeat(pa.scalar(block.source), count),
        "_device": pa.repeat(pa.scalar(position.device, pa.int64()), count),
        "_inode": pa.repeat(pa.scalar(position.inode, pa.int64()), count),
        "_generation": pa.repeat(pa.scalar(position.generation.hex()), count),
        "_offset": _offsets(block, position, lines),
    }
    return pa.table({**identity, **columns})


def _offsets(block: Block, position: FilePosition, lines: Lines) -> pa.Array:
    """Return the offset of each record in its file; null if the block contains an over-long line.

    The decoded text may be longer than the bytes, because malformed UTF-8 is replaced, but it has the same
    newlines.
    """
    if block.overlong:
        return pa.nulls(len(lines), pa.int64())
    ends = np.flatnonzero(np.frombuffer(block.data, np.uint8) == NEWLINE)
    begins = np.concatenate([[0], ends + 1])
    text = np.flatnonzero(np.frombuffer(lines.data, np.uint8) == NEWLINE)
    return pa.array(position.offset + begins[np.searchsorted(text, lines.starts)], pa.int64())
