"""Where lines come from: files read to their end, and files followed while they grow and rotate."""

from elfmesh.agent.sources.blocks import Block, FileKey, FilePosition, read_blocks
from elfmesh.agent.sources.reader import Delivery, StreamReader, parse_block
from elfmesh.agent.sources.tail import SourceId, SourceState, Tail

__all__ = [
    "Block",
    "Delivery",
    "FileKey",
    "FilePosition",
    "SourceId",
    "SourceState",
    "StreamReader",
    "Tail",
    "parse_block",
    "read_blocks",
]
