"""Compares the published intervals of a job with history, row by row. Works on plain data without Spark."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elfmesh.ql.values.row_json import encode_json

EQUAL, DIFFERENT, INCOMPLETE, SKIPPED, OLDER, LIVE_ONLY, HISTORY_ONLY = (
    "equal",
    "different",
    "incomplete",
    "skipped",
    "of another version",
    "only live",
    "only in history",
)
SHOWN_MAX = 20
"""Maximum number of rows per side that a difference shows."""


@dataclass(frozen=True, slots=True)
class Compared:
    """Result of comparing one interval: state, number of equal rows, rows on one side only, and a note.

    INCOMPLETE means that the rows differ and agents were missing.
    """

    index: int
    state: str
    equal: int = 0
    live: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    note: str = ""

    @property
    def differs(self) -> bool:
        """Whether the published rows and history differ."""
        return self.state in (DIFFERENT, INCOMPLETE, LIVE_ONLY, HISTORY_ONLY)

    def to_json(self) -> dict[str, Any]:
        """Return the result for `-o json`."""
        shown = {"interval": self.index, "state": self.state, "equal": self.equal}
        return {**shown, "live": list(self.live), "history": list(self.history), "note": self.note}


@dataclass(slots=True)
class Totals:
    """Sums over all compared intervals."""

    intervals: int = 0
    equal: int = 0
    different: int = 0
    left_out: int = 0
    states: Counter[str] = field(default_factory=Counter)

    def add(self, one: Compared) -> None:
        """Add an interval."""
        self.intervals += 1
        self.states[one.state] += 1
        self.equal += one.equal
        self.different += max(len(one.live), len(one.history))
        self.left_out += one.state in (SKIPPED, OLDER)


Row = Mapping[str, Any]


def compare(
    published: Mapping[int, Mapping[str, Any]],
    history: Mapping[int, Sequence[Row]],
    first: int,
    last: int,
    version: int,
) -> list[Compared]:
    """Compare the intervals from `first` to `last` that either side has, in ascending order.

    `published` contains the records as `elf results -o json` prints them. `history` contains rows in their
    JSON form, computed with `version` of the job's text.
    """
    indices = [index for index in sorted({*published, *history}) if first <= index <= last]
    found = [_one(index, published.get(index), history.get(index, ()), version) for index in indices]
    return [one for one in found if one.state != HISTORY_ONLY or one.history]


def _one(index: int, live: Mapping[str, Any] | None, rows: Sequence[Row], version: int) -> Compared:
    theirs = [encode_json(row).decode() for row in rows]
    if live is None:
        return Compared(index, HISTORY_ONLY, history=tuple(theirs))
    if live["state"] == "SKIPPED":
        return Compared(index, SKIPPED, note="the job skipped it")
    if live["version"] != version:
        return Compared(index, OLDER, note=f"version {live['version']}, the job has {version} now")
    ours = [encode_json(row).decode() for row in live["rows"]]
    if ours == theirs:
        return Compared(index, EQUAL, equal=len(ours))
    mine, other = Counter(ours) - Counter(theirs), Counter(theirs) - Counter(ours)
    equal = (Counter(ours) & Counter(theirs)).total()
    state = EQUAL if not mine and not other and sorted(ours) == sorted(theirs) else DIFFERENT
    note = "in another order" if state == EQUAL else ""
    late = live["counts"].get("late_dropped", 0)
    if live["completeness"] < 1:
        state, missing = INCOMPLETE, ", ".join(map(str, live["agents"]["missing"]))
        note = f"completeness {live['completeness']:g}, missing {missing}"
    elif late:
        note = f"{late} records were late for the published result; in history no record is late"
    state = DIFFERENT if note == "in another order" else state
    return Compared(index, state, equal, tuple(mine.elements()), tuple(other.elements()), note)
