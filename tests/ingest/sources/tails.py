"""What tests of a tail share: a clock to set, lines to append, and all that a tail reads."""

from __future__ import annotations

from pathlib import Path

from elfmesh.ingest.sources import Block, Tail
from elfmesh.ingest.sources.position import FilePosition


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def text(blocks: list[Block]) -> str:
    return b"".join(block.data for block in blocks).decode()


def drain(tail: Tail) -> str:
    found = ""
    while blocks := tail.poll():
        found += text(blocks)
    return found


def positions_after(pattern: Path) -> tuple[FilePosition, ...]:
    """Read what is there, and return the positions at which the follower stopped."""
    tail = Tail(str(pattern))
    drain(tail)
    positions = tail.positions()
    tail.close()
    return positions


def append(path: Path, data: str) -> None:
    with path.open("a") as file:
        file.write(data)


def let_file_clock_pass(probe: Path) -> None:
    """Wait until what is done to files gets another time, as it does when people and tools do it."""
    probe.touch()
    before = probe.stat().st_ctime_ns
    while probe.stat().st_ctime_ns == before:
        probe.touch()
