"""Time indexes of the files of a stream, made while blocks are evaluated, for readers of a range of times.

Owns the names of the indexes, and the rule by which an index belongs to a file (D-2):

- An index is named by the beginning of the file, its device and inode. A renamed file keeps its index; a
  copy and a compressed form begin in the same way, and may use it.
- A plain file must have the bytes before the ends of the stretches that are passed over. A compressed file
  is passed over up to its end only, and must declare exactly the described size.
- An index of which this is not true is made again if it is the file's own.

All methods may be called by several threads.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from elfmesh.ingest.sources import contents
from elfmesh.ingest.sources.blocks import Block
from elfmesh.ingest.sources.file import OpenFile
from elfmesh.ingest.sources.position import FileKey, FilePosition, digest
from elfmesh.ingest.sources.time_index import STRETCH_BYTES, Stretch, TimeIndex, WantedTimes, extremes
from elfmesh.ql.engine.block import INT64_MAX, INT64_MIN, Times
from elfmesh.safeguards import safeguard

log = logging.getLogger("elf.worker")

INDEXES_MAX = 1024
"""Maximum number of indexes of a stream, on disk and in memory; those that grew longest ago are deleted."""

TRIED_MAX = 8
"""Maximum number of indexes that are compared with a file: its own, and the longest ones of files that begin
in the same way, as files with one header do."""

GAPS_MAX = 8
"""Maximum number of stretches in a row of a file that count as passed over in a prediction: the longest."""

BEGUN_MAX = 4 * INDEXES_MAX
"""Maximum number of begun stretches; an index whose stretch is dropped grows again with the next query."""


class _Name(Struct, frozen=True):
    """Name of an index: the hash of the first `head` bytes of the file, its device and inode, the column."""

    generation: bytes
    head: int
    device: int
    inode: int
    column: bytes

    def __str__(self) -> str:
        parts = (self.generation.hex(), str(self.head), str(self.device), str(self.inode), self.column.hex())
        return "-".join(parts)

    @classmethod
    def parse(cls, text: str) -> _Name | None:
        try:
            generation, head, device, inode, column = text.split("-")
            return cls(bytes.fromhex(generation), int(head), int(device), int(inode), bytes.fromhex(column))
        except ValueError:
            return None


class _Begun(Struct):
    """Stretch that grows: its beginning, and what it has. `cut`: its last record may go on."""

    start: int
    stretch: Stretch
    cut: bool = False


class StreamTimes:
    """Time indexes of one stream, in a directory of its own.

    Args:
        directory: of the indexes; it is made with the first one.
        settings: hash of everything by which the times of a line are read.
    """

    def __init__(self, directory: Path, settings: bytes) -> None:
        self._directory, self._settings = directory, settings
        self._lock = threading.Lock()
        self._loaded: dict[_Name, TimeIndex] = {}
        self._begun: dict[tuple[_Name, int], _Begun] = {}
        self._own: dict[tuple[FileKey, bytes], _Name] = {}
        self._names: dict[_Name, None] | None = None

    def note(self, block: Block, column: str, times: Times, unfit: Sequence[int] = ()) -> None:
        """Note the event times of a block.

        `unfit` are the rows of values that did not fit the types of their columns. If one of them has no
        time, another reader, which has learned another type, may find one.
        """
        place = block.position
        if place is None or not place.head:
            return
        least_us, greatest_us = extremes(times)
        if len(unfit) and times.missing is not None and times.missing[np.asarray(unfit)].any():
            least_us, greatest_us = INT64_MIN, INT64_MAX
        with self._lock:
            name = self._name(place, digest(column.encode()))
            index = self._index(name)
            if not place.offset and index.end and not _begins(index, block):
                self._discard(name, block.source)
                index = self._index(name)
            begun = self._begun.pop((name, place.offset), None)
            if begun is not None:
                least_us = min(least_us, begun.stretch.least_us)
                greatest_us = max(greatest_us, begun.stretch.greatest_us)
            start = place.offset if begun is None else begun.start
            if not start <= index.end < block.end:
                return  # of a reader elsewhere in the file
            grown = _Begun(start, Stretch(block.end, block.mark, least_us, greatest_us), block.cut)
            if block.end - start < STRETCH_BYTES or not self._add(index, name, grown):
                self._begun[name, block.end] = grown
                if len(self._begun) > BEGUN_MAX:
                    del self._begun[next(iter(self._begun))]

    def flush(self) -> None:
        """Add the stretches that have begun, because their files may not be read on."""
        with self._lock:
            for (name, end), begun in list(self._begun.items()):
                index = self._index(name)
                if not index.end:  # a file with one stretch needs no index
                    continue
                if not begun.start <= index.end < end or self._add(index, name, begun):
                    del self._begun[name, end]

    def passed(self, file: OpenFile, wanted: Sequence[WantedTimes]) -> int:
        """Return the offset up to which a file has no record of any range, from its present offset on."""
        with self._lock:
            return min(self._reach(file, each) for each in wanted)

    def spared(self, file: OpenFile, wanted: WantedTimes, block_bytes: int) -> int:
        """Return how many bytes of a file a new reader of a range passes over, at least.

        A reader in blocks of `block_bytes` reads the first one, and the beginning of what it may pass over.
        Cost: at most `GAPS_MAX` times the comparison of a reader.
        """
        column, identity = digest(wanted.column.encode()), file.position.id
        with self._lock:
            names = list(self._alike(file, column))
            own = [name for name in names if (name.device, name.inode) == identity]
            return max((self._gain(file, name, wanted, block_bytes) for name in own or names), default=0)

    def _gain(self, file: OpenFile, name: _Name, wanted: WantedTimes, block_bytes: int) -> int:
        index = self._index(name)
        gaps = sorted(index.gaps(wanted), key=index.size_of)[-GAPS_MAX:]
        if not all(_is_passable(file, index, gap) for gap in gaps):
            return 0
        return sum(max(0, index.size_of(gap) - 2 * block_bytes) for gap in gaps)

    def _reach(self, file: OpenFile, wanted: WantedTimes) -> int:
        column, place = digest(wanted.column.encode()), file.position
        found: list[tuple[bool, int, _Name, range]] = []
        for name in list(self._alike(file, column)):
            index = self._index(name)
            if over := index.over(place.offset, wanted):
                found.append(((name.device, name.inode) == place.id, index.end_of(over), name, over))
        found.sort(key=lambda each: each[:2], reverse=True)
        for is_own, reached, name, over in found[:TRIED_MAX]:
            if _is_passable(file, self._index(name), over):
                if is_own:
                    self._own = {} if len(self._own) >= INDEXES_MAX else self._own
                    self._own[place.key, column] = name
                return reached
            if is_own and file.inflated is None:
                self._discard(name, file.path)
        return place.offset

    def _alike(self, file: OpenFile, column: bytes) -> Iterator[_Name]:
        """Yield the indexes of files that begin as a file does."""
        heads: dict[int, bytes] = {}
        for name in self._known():
            if name.column == column and 0 < name.head <= len(file.head):
                if name.head not in heads:
                    heads[name.head] = digest(file.head[: name.head])
                if heads[name.head] == name.generation:
                    yield name

    def _name(self, place: FilePosition, column: bytes) -> _Name:
        own = self._own.get((place.key, column))
        return own or _Name(place.generation, place.head, place.device, place.inode, column)

    def _index(self, name: _Name) -> TimeIndex:
        index = self._loaded.pop(name, None)
        if index is None:
            index = TimeIndex(self._directory / str(name), self._settings + str(name).encode())
            if len(self._loaded) >= INDEXES_MAX:
                del self._loaded[next(iter(self._loaded))]
        self._loaded[name] = index
        return index

    def _add(self, index: TimeIndex, name: _Name, begun: _Begun) -> bool:
        """Add a stretch to an index; returns False if no reader may begin at its end."""
        if begun.cut or not begun.stretch.mark:
            return False
        if not index.end:
            self._make_room(name)
        index.add(begun.stretch)
        return True

    def _make_room(self, name: _Name) -> None:
        known = self._known()
        known[name] = None
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if len(known) > INDEXES_MAX:
                stored = sorted(self._directory.iterdir(), key=lambda path: path.stat().st_mtime_ns)
                for path in stored[: len(known) - INDEXES_MAX]:
                    path.unlink()
                    if (old := _Name.parse(path.name)) is not None:
                        self._forget(old)
        except OSError as error:
            log.warning("%s: %s", self._directory, error.strerror or error)

    def _known(self) -> dict[_Name, None]:
        if self._names is None:
            try:
                found = [_Name.parse(path.name) for path in sorted(self._directory.iterdir())]
            except OSError:
                found = []
            self._names = {name: None for name in found if name is not None}
        return self._names

    def _discard(self, name: _Name, path: str) -> None:
        log.info("%s: its time index is of other content, and is made again", path)
        with contextlib.suppress(OSError):
            (self._directory / str(name)).unlink()
        self._forget(name)

    def _forget(self, name: _Name) -> None:
        self._known().pop(name, None)
        self._loaded.pop(name, None)
        self._own = {key: own for key, own in self._own.items() if own != name}
        self._begun = {key: begun for key, begun in self._begun.items() if key[0] != name}


@safeguard("index-of-this-file")
def _is_passable(file: OpenFile, index: TimeIndex, over: range) -> bool:
    if file.inflated is None:
        return file.has(index.marks(over))
    end = index.end_of(over)
    return end == index.end and contents.ends_at(file.path, file.position.at(end))


def _begins(index: TimeIndex, block: Block) -> bool:
    """Return whether the file whose first block this is has everything that an index describes."""
    assert block.position is not None
    if contents.is_compressed(block.source):
        return True
    return contents.holds(block.source, block.position.at(index.end, index.last_mark))
