"""A blob store in memory whose faults a test chooses."""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.errors import StorageError


class MemoryStore:
    """Blobs in a dict.

    Attributes:
        blobs: what is kept.
        refuses: whether puts fail.
        loses: whether gets fail.
        fails: asked before each put and get; True fails it.
    """

    def __init__(self, fails: Callable[[], bool] = lambda: False) -> None:
        self.blobs: dict[int, bytes] = {}
        self.refuses = self.loses = False
        self.fails = fails
        self.puts = 0

    def put(self, blob: bytes) -> int:
        if self.refuses or self.fails():
            raise StorageError("the disk is full")
        self.puts += 1
        self.blobs[self.puts] = bytes(blob)
        return self.puts

    def get(self, number: int) -> bytes:
        if self.loses or self.fails():
            raise StorageError("the disk cannot be read")
        return self.blobs[number]

    def drop(self, number: int) -> None:
        del self.blobs[number]

    @property
    def nbytes(self) -> int:
        return sum(map(len, self.blobs.values()))
