"""Positions of the invalid lines in the error samples of a block.

A line is found by its beginning in the sample, so formats need not track line numbers. If it is not found (a
value that does not fit, malformed UTF-8), only the file is reported. Only blocks with samples are searched.
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.ingest.parsers import scanner
from elfmesh.ingest.parsers.base import SAMPLE_CHARACTERS_MAX
from elfmesh.ingest.sources.blocks import Block

REASON_PARTS_MAX = 4
"""Maximum number of colons in a reason, plus one; a line may contain any number."""

CUT = "..."


def places(samples: Sequence[str], block: Block, lines_before: int | None = None) -> list[str]:
    """Return the position of each sample: `FILE:LINE`, `FILE byte OFFSET`, or the file alone.

    Without `lines_before`, the number of lines before the block is unknown, because reading began within the
    file.
    """
    source = "stdin" if block.source == "-" else block.source
    found: list[str] = []
    behind: dict[str, int] = {}
    for each in samples:
        start = start_of(each, block.data, behind.get(each, 0))
        if start is not None:
            behind[each] = start + 1
        if start is None:
            found.append(source)
        elif lines_before is not None:
            found.append(f"{source}:{lines_before + newlines(block.data[:start]) + 1}")
        elif block.position is not None:
            found.append(f"{source} byte {block.position.offset + start}")
        else:
            found.append(source)
    return found


def start_of(sample: str, data: bytes, begin: int = 0) -> int | None:
    """Return the start of a sample's line: the first match at or after `begin`, None if there is none."""
    parts = sample.split(": ", REASON_PARTS_MAX)
    for number in range(1, len(parts)):
        shown = ": ".join(parts[number:])
        whole = len(shown) < SAMPLE_CHARACTERS_MAX + len(CUT) or not shown.endswith(CUT)
        text = (shown if whole else shown.removesuffix(CUT)).encode()
        for end in (b"\n", b"\r\n") if whole else (b"",):
            if text and not begin and data.startswith(text + end):
                return 0
            if text and (at := data.find(b"\n" + text + end, max(0, begin - 1))) >= 0:
                return at + 1
        if text and whole and (data == text or data.endswith(b"\n" + text)):
            return len(data) - len(text)
    return None


def newlines(data: bytes) -> int:
    """Return how many lines end in a block.

    Cost: 10 microseconds a megabyte with the scanner, 350 without.
    """
    scan = scanner.for_block(data)
    return data.count(b"\n") if scan is None else int(scan.newlines(data))
