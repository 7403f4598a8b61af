"""Log formats: parsers from a block of complete lines to an Arrow batch with only the needed columns."""

from elfmesh.ingest.parsers.base import META_COLUMNS, Parsed, Parser
from elfmesh.ingest.parsers.formats import (
    NAMES,
    AutoParser,
    StreamFormat,
    discover_columns,
    found_columns,
    known_columns,
    static_schema,
)
from elfmesh.ingest.parsers.sniff import sniff

__all__ = [
    "META_COLUMNS",
    "NAMES",
    "AutoParser",
    "Parsed",
    "Parser",
    "StreamFormat",
    "discover_columns",
    "found_columns",
    "known_columns",
    "sniff",
    "static_schema",
]
