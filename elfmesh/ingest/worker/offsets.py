"""Offsets of one job: how far the sources were read, and where a restart must read again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from elfmesh.control.jobs.records import FIRST
from elfmesh.ingest.sources import Block, FileKey, FilePosition, SourceState
from elfmesh.safeguards import safeguard

ReadUpTo: TypeAlias = tuple[FilePosition, int]
"""Records before the position in its file are counted, as far as they belong to intervals below the
number."""

Stretch: TypeAlias = tuple[FilePosition, int]
"""Dropped bytes of a file: from a position to an offset."""


class JobOffsets:
    """Offsets of one job in its files; `read_up_to` and `shed` are restored from frames after a restart."""

    def __init__(
        self,
        read_up_to: Iterable[ReadUpTo] = (),
        shed: Iterable[Stretch] = (),
    ) -> None:
        self._read_up_to = furthest(read_up_to)
        self._left_out: list[tuple[int | None, Stretch]] = [(None, stretch) for stretch in shed]
        self._begun: dict[int, dict[FileKey, FilePosition]] = {}
        self._read: dict[FileKey, FilePosition] = {}
        self._sources: dict[tuple[int, int], SourceState] | None = None

    def read(self, block: Block) -> None:
        behind = block.behind
        if behind is not None:
            self._read[behind.key] = behind

    def begin(self, pane: int, block: Block) -> None:
        if block.position is not None:
            self._begun.setdefault(pane, {}).setdefault(block.position.key, block.position)

    def counted_below(self, block: Block) -> int | None:
        """Return the interval below which the records of a block were counted before the restart.

        Returns None if it is new.
        """
        at = block.position
        if at is None or not self._read_up_to:
            return None
        read_up_to = (below for to, below in self._read_up_to if to.key == at.key and block.end <= to.offset)
        return max(read_up_to, default=None)

    def leave_out(self, pane: int, block: Block) -> None:
        """Note that a block is counted in an open pane and not evaluated.

        A replay must drop the same lines.
        """
        self.begin(pane, block)
        if block.position is not None:
            self._left_out.append((pane, (block.position, block.end)))

    def was_left_out(self, block: Block) -> bool:
        """Return whether a block was dropped before the restart and is counted in sealed intervals."""
        at = block.position
        return at is not None and any(
            pane is None and start.key == at.key and start.offset <= at.offset and block.end <= end
            for pane, (start, end) in self._left_out
        )

    def begun_from(self, pane: int) -> tuple[FilePosition, ...]:
        begun = (each for at, each in self._begun.items() if at >= pane)
        return tuple(dict.fromkeys(position for each in begun for position in each.values()))

    def shed(self) -> tuple[Stretch, ...]:
        """Return the dropped stretches that sealed intervals count and that a restart would read again."""
        restart = {position.key: position.offset for position in self.restart()}
        return tuple(
            (start, end)
            for pane, (start, end) in self._left_out
            if pane is None and end > restart.get(start.key, end)
        )

    def edges(self) -> tuple[FilePosition, ...]:
        """Return the offsets that no block may cross when it is read again."""
        stretches = [stretch for _, stretch in self._left_out]
        ends = (start.at(end) for start, end in stretches)
        return (
            *(to for to, _ in self._read_up_to),
            *self.reached(),
            *(start for start, _ in stretches),
            *ends,
        )

    def close_below(self, pane: int) -> None:
        self._begun = {each: begun for each, begun in self._begun.items() if each >= pane}
        self._left_out = [(p if p is not None and p >= pane else None, each) for p, each in self._left_out]
        needed = self.shed()
        self._left_out = [(p, each) for p, each in self._left_out if p is not None or each in needed]

    def keep(self, sources: dict[tuple[int, int], SourceState]) -> None:
        """Forget files that are neither open nor needed by an open pane; old generations are not open."""
        self._sources = sources
        needed = {key for begun in self._begun.values() for key in begun}
        for key in list(self._read):
            if not self._is_present(key) and key not in needed:
                del self._read[key]

    def restart(self) -> tuple[FilePosition, ...]:
        """Return the positions at which reading must restart so that every open pane can be filled again."""
        earliest = dict(self._read)
        for begun in self._begun.values():
            for key, position in begun.items():
                if key not in earliest or position.offset < earliest[key].offset:
                    earliest[key] = position
        return tuple(earliest.values())

    def reached(self) -> tuple[FilePosition, ...]:
        """Return how far this boot has read each file; its sealed intervals contain everything before."""
        return tuple(self._read.values())

    @safeguard("told-positions")
    def read_up_to(self) -> tuple[ReadUpTo, ...]:
        """Return what earlier boots have counted beyond `reached`: the `read_up_to` for another restart."""
        return tuple(
            (to, below)
            for to, below in self._read_up_to
            if (at := self._read.get(to.key)) is None or at.offset < to.offset
            if at is not None or self._is_present(to.key)
        )

    def _is_present(self, key: FileKey) -> bool:
        if self._sources is None:
            return True
        state = self._sources.get(key[:2])
        return state is not None and (not state.generations or key[2] in state.generations)


def furthest(read_up_to: Iterable[ReadUpTo]) -> tuple[ReadUpTo, ...]:
    """Remove the entries that others imply, and order the rest."""
    found: list[ReadUpTo] = []
    for to, below in sorted(read_up_to, key=lambda each: (*each[0].key, -each[1], -each[0].offset)):
        # Entries of one file with more intervals come first; later ones matter only if they go further.
        if below > FIRST and (not found or found[-1][0].key != to.key or found[-1][0].offset < to.offset):
            found.append((to, below))
    return tuple(found)
