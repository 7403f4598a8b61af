"""Lines of results that are parts of one record, and how a reader joins them.

An agent writes a record whose rows are stored as pages as several lines with `part` and `parts`. The module
needs only the standard library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

OPEN_STATES = ("TENTATIVE", "EARLY")
"""States of lines that other lines of the same interval may follow."""

Place = tuple[int, int, int, bool]
"""Interval, revision and part of a line, and whether it has early rows."""


def place_of(found: dict[str, Any]) -> Place:
    index, is_early = int(found["interval"]["index"]), found.get("state") == "EARLY"
    return index, int(found.get("rev", 1)), int(found.get("part", 1)), is_early


def ends(found: dict[str, Any]) -> bool:
    return bool(found.get("part", 1) == found.get("parts", 1))


def whole(lines: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield records with all their rows, except those with a missing part, which are sent again."""
    joiner = Joiner()
    for each in lines:
        if (found := joiner.add(each)) is not None:
            yield found


class Parts:
    """Filter of lines that a reader has received before, for readers that reconnect."""

    def __init__(self) -> None:
        self._had: Place | None = None

    def is_new(self, found: dict[str, Any]) -> bool:
        had, place = self._had, place_of(found)
        self._had = place
        same = had is not None and (*place[:2], place[3]) == (*had[:2], had[3])
        return not same or had is None or place[2] > had[2] or "part" not in found


class Joiner:
    """Joins the lines of one answer to records."""

    def __init__(self) -> None:
        self._held: dict[str, Any] | None = None
        self._next: Place | None = None

    def add(self, found: dict[str, Any]) -> dict[str, Any] | None:
        """Add a line. Returns the record that it completes, or None if more lines follow."""
        index, rev, part, is_early = place = place_of(found)
        last = ends(found)
        for name in ("part", "parts"):
            found.pop(name, None)
        if part == 1:
            self._held = found
        elif self._held is not None and place == self._next:
            self._held["rows"].extend(found["rows"])
        else:
            self._held = None
        self._next = (index, rev, part + 1, is_early)
        if not last:
            return None
        complete, self._held = self._held, None
        return complete
