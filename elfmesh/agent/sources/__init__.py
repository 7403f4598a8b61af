"""Where lines come from: files read to their end, and files followed while they grow and rotate."""

from elfmesh.agent.sources.blocks import Block, read_blocks
from elfmesh.agent.sources.position import FileKey, FilePosition, Gap, SourceId, SourceState
from elfmesh.agent.sources.reader import Delivery, StreamReader, parse_block
from elfmesh.agent.sources.tail import Tail

__all__ = [
    "Block",
    "Delivery",
    "FileKey",
    "FilePosition",
    "Gap",
    "SourceId",
    "SourceState",
    "StreamReader",
    "Tail",
    "parse_block",
    "read_blocks",
]
