"""Bucket counts of the records of one job at one agent, by interval (D-1). Arithmetic only.

Counts below a closed interval are removed; `carried` has the counts of open intervals that a replay does not
repeat.
"""

from __future__ import annotations

from typing import TypeAlias

from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, FILTERED, FIRST
from elfmesh.ingest.worker.intervals import add_to
from elfmesh.ql.engine.assumed import OpenAssumptions
from elfmesh.safeguards import safeguard

Carried: TypeAlias = tuple[int | None, int, tuple[int, ...]]
"""The interval that counts them (None: the first one to be sealed), the interval they belong to, counts per
bucket."""


class Tally:
    """Counts of one job; `totals` are since the beginning.

    `slide` is the number of panes between intervals, `size` the number of panes of an interval, and
    `dependencies` the number of those in ASSUME. `assumed` has the violations of ASSUME in open panes.
    """

    def __init__(self, slide: int, size: int, dependencies: int = 0) -> None:
        self._slide, self._size, self.assumed = slide, size, OpenAssumptions(dependencies)
        self.totals = [0] * len(BUCKETS)
        self._panes: dict[int, list[int]] = {}
        self._inputs: dict[int, dict[int, int]] = {}
        self._others: dict[int, list[int]] = {}
        self._homeless = [0] * len(BUCKETS)
        self._carried: dict[tuple[int | None, int], list[int]] = {}

    @property
    def all_totals(self) -> list[int]:
        """Return the totals, and behind them the violations in closed panes, if there are any."""
        return [*self.totals, self.assumed.closed] if self.assumed.closed else self.totals

    def count_pane(self, bucket: int, number: int, pane: int) -> None:
        self.totals[bucket] += number
        self._panes.setdefault(pane, [0, 0])[bucket] += number

    def of_pane(self, pane: int) -> tuple[int, int]:
        """Return how many records of a pane are contributed and filtered."""
        contributed, filtered = self._panes.get(pane, (0, 0))
        return contributed, filtered

    def panes(self) -> list[int]:
        return sorted(self._panes)

    def count_input(self, at: int, number: int, pane: int) -> None:
        """Count records that pass the filters of one input of a text with several."""
        by_pane = self._inputs.setdefault(at, {})
        by_pane[pane] = by_pane.get(pane, 0) + number

    def inputs_of(self, index: int, inputs: int) -> tuple[int, ...]:
        """Return for each of some inputs the records of an interval that pass its filters."""
        panes = range(index * self._slide, index * self._slide + self._size)
        return tuple(
            sum(number for pane, number in self._inputs.get(at, {}).items() if pane in panes)
            for at in range(inputs)
        )

    def count(self, bucket: int, number: int, index: int | None, *, total: bool = True) -> None:
        """Count records without a pane in an interval; None: the first one to be sealed."""
        self.totals[bucket] += number if total else 0
        if index is None:
            self._homeless[bucket] += number
        else:
            add_to(self._others, index, bucket, number)

    @safeguard("late-at-home")
    def count_once(
        self, bucket: int, number: int, index: int | None, home: int = FIRST, *, total: bool = True
    ) -> None:
        """As `count`, for records that a replay counts again only if interval `home` is evaluated again."""
        if number:
            self.count(bucket, number, index, total=total)
            self._carried.setdefault((index, home), [0] * len(BUCKETS))[bucket] += number

    @property
    @safeguard("carried-counts")
    def carried(self) -> tuple[Carried, ...]:
        return tuple((*key, tuple(counts)) for key, counts in self._carried.items())

    @safeguard("sealed-once")
    def once_below(self, stop: int) -> tuple[Carried, ...]:
        return tuple(
            (stop - 1 if index is None else index, home, counts)
            for index, home, counts in self.carried
            if index is None or index < stop
        )

    @property
    def end(self) -> int:
        """Return one past the last non-empty interval; far in the past if there is none."""
        return max([*(pane // self._slide for pane in self._panes), *self._others], default=-(2**62)) + 1

    def place_homeless(self, index: int) -> None:
        """Assign the counts without an interval to this one."""
        for bucket, number in enumerate(self._homeless):
            if number:
                add_to(self._others, index, bucket, number)
        self._homeless = [0] * len(BUCKETS)
        self._carried = {key: counts for key, counts in self._carried.items() if key[0] is not None}

    def occupied(self, start: int, stop: int) -> list[int]:
        """Return the intervals in [start, stop) that have rows or counts, ascending."""
        found = {index for index in self._others if index < stop}
        for pane in self._panes:
            first = -((self._size - 1 - pane) // self._slide)
            found.update(range(max(first, start), min(pane // self._slide + 1, stop)))
        return sorted(found)

    def of(self, index: int) -> list[int]:
        """Return the counts of an interval, in the form of messages."""
        counts = list(self._others.get(index, (0,) * len(BUCKETS)))
        for pane in range(index * self._slide, index * self._slide + self._size):
            contributed, filtered = self._panes.get(pane, (0, 0))
            counts[CONTRIBUTED] += contributed
            counts[FILTERED] += filtered
        first = index * self._slide
        broken = self.assumed.broken(range(first, first + self._size))
        return [*counts, broken] if broken else counts

    def close_below(self, index: int) -> None:
        self._panes = {pane: each for pane, each in self._panes.items() if pane >= index * self._slide}
        self.assumed.close_below(index * self._slide)
        self._inputs = {
            at: {pane: number for pane, number in panes.items() if pane >= index * self._slide}
            for at, panes in self._inputs.items()
        }
        self._others = {at: counts for at, counts in self._others.items() if at >= index}
        self._carried = {
            key: counts for key, counts in self._carried.items() if key[0] is None or key[0] >= index
        }
