"""The input of a run while it is read: files, and their blocks in order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from elfmesh.ingest.parsers import Parsed, Parser, StreamFormat
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ql.engine.block import BlockRows

if TYPE_CHECKING:
    from concurrent.futures import Future


class LogSource(Struct):
    """One file while it is read.

    Attributes:
        stream: the stream that it belongs to.
        path: its path, or "-".
        formats: the format of the stream.
        parser: the parser of the file.
        lines: number of lines read so far.
    """

    stream: str
    path: str
    formats: StreamFormat
    parser: Parser
    lines: int = 0


class Turn(Struct):
    """One block of the input.

    Attributes:
        lines: lines of the file before the block.
        bytes_read: bytes read from all files when the block was read.
        branch: the parser that parses it out of turn; None: nothing does.
        attempt: the result of the branch; None if it raised, because the error belongs to the block's turn.
        records: its rows, with the values that were computed before its turn; None: none was.
    """

    source: LogSource
    block: Block
    lines: int
    bytes_read: int
    branch: Parser | None = None
    attempt: Future[Parsed | None] | None = None
    records: BlockRows | None = None


class ReadBlock(Struct, frozen=True):
    """One parsed block of the input, in its turn.

    Attributes:
        bytes_read: bytes read from all files so far.
        records: the rows of `parsed`, with the values computed so far.
    """

    parsed: Parsed
    block: Block
    bytes_read: int
    records: BlockRows
