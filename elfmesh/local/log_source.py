"""One file of a run while it is read."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ingest.parsers import Parser, StreamFormat


@dataclass(slots=True)
class LogSource:
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
