"""Log formats: a block of whole lines becomes an Arrow batch with only the columns that some job needs."""

from elfmesh.agent.parsers.base import META_COLUMNS, Parsed, Parser
from elfmesh.agent.parsers.formats import (
    NAMES,
    AutoParser,
    StreamFormat,
    discover_columns,
    found_columns,
    known_columns,
    static_schema,
)
from elfmesh.agent.parsers.sniff import sniff

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
