"""Reads log files on at their end, also across rotation, for `elf run --follow`.

The files are followed by the rules of an agent (`ingest.sources.tail`), without stored positions.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Sequence

from elfmesh.ingest.parsers import StreamFormat
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.directives import head_before
from elfmesh.ingest.sources.position import FileKey
from elfmesh.ingest.sources.tail import Tail
from elfmesh.local.log_source import LogSource

POLL_S = 0.1


def follow(
    logs: Sequence[tuple[str, str, StreamFormat]],
    stop: threading.Event,
    block_bytes: int,
    report: Callable[[str], None],
) -> Generator[tuple[LogSource, Block]]:
    """Yield the blocks of all files until `stop` is set, each file from its beginning.

    Args:
        logs: stream, path and format of each file.
        stop: ends the input.
        block_bytes: size of a block.
        report: receives each loss of lines, for example of a file that was truncated before it was read.
    """
    tails = [(log, Tail(log[1], framing=log[2].framing, block_bytes=block_bytes)) for log in logs]
    sources: dict[FileKey, LogSource] = {}
    try:
        while not stop.is_set():
            quiet = True
            for (stream, _, formats), tail in tails:
                for block in tail.poll():
                    quiet = False
                    assert block.position is not None
                    source = sources.get(block.position.key)
                    if source is None:
                        parser = formats.parser(block.source, head=head_before(block, formats.directive))
                        source = LogSource(stream, block.source, formats, parser)
                        sources[block.position.key] = source
                    yield source, block
                for gap in tail.take_gaps():
                    report(str(gap))
            if quiet:
                stop.wait(POLL_S)
    finally:
        for _, tail in tails:
            tail.close()
