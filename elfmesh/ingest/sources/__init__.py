"""Sources of lines: files read to their end, and files followed while they grow and rotate."""

from typing import TYPE_CHECKING

from elfmesh.ingest.sources.blocks import Block, read_blocks
from elfmesh.ingest.sources.position import FileKey, FilePosition, Gap, SourceId, SourceState
from elfmesh.lazy import lazy_names

if TYPE_CHECKING:
    from elfmesh.ingest.sources.parsing import parse_block
    from elfmesh.ingest.sources.reader import BlockDelivery, StreamReader
    from elfmesh.ingest.sources.tail import Tail
else:
    __getattr__ = lazy_names(
        __name__, {"parsing": "parse_block", "reader": "BlockDelivery StreamReader", "tail": "Tail"}
    )

__all__ = [
    "Block",
    "BlockDelivery",
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
