"""Watermark of one job at one agent (D-12): the time below which no more records are expected from here.

It is the minimum over the sources (files) of what each has reached, and never decreases:

- a source with unread lines has reached its largest timestamp minus the lateness;
- a source read to its end advances with the clock (minus the lateness, at least `WRITING_US`): at once if its
  newest timestamp was close to the wall clock, otherwise (a replay) after `idle_us` without usable records;
- a source without any usable record, or the absence of sources, lets the clock count after `UNFED_FACTOR`
  times `idle_us`, because the coming records may be live or a replay;
- after a restart, a source has reached what the frames had sealed, and is as live or idle as before;
- the clock is the agent's own, but never ahead of most peers' clocks (`agreed_us`);
- no record moves it beyond the clock, or most peers' clocks if these are later, so that one wrong time does
  not make all others late;
- for a source that is stamped by a clock over `BEHIND_US` ahead of the agent's own, most peers' clocks count,
  because the agent's own clock is wrong;
- of a job with an end (`until_us`), a source counts only once it was read to its end, so that the order of
  existing records does not matter, and the clock counts at once when it has passed the job's end (without
  sources, after `idle_us`).

While back-pressure pauses the reader, the watermark stops. `now_us` is the wall clock *before* the poll,
because the poll may miss later lines. Safety never depends on the watermark: a wrong clock makes records
late, and late records are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from msgspec import Struct

from elfmesh.safeguards import safeguard

IDLE_US = 5_000_000
LIVE_US = 5_000_000
"""A source whose newest timestamp is this close to the wall clock is being written now."""

WRITING_US = 50_000
"""Minimum distance of the watermark from the clock: the time between the stamping of a record and its
appearance in the file. Without it, records at the end of every interval would occasionally be late."""

BEHIND_US = 60_000_000
"""A source whose newest timestamp is so far ahead of the wall clock was stamped by a better one. It counts
only as far as most peers' clocks."""

UNFED_FACTOR = 2
"""Factor by which an empty source is awaited longer than a silent replay; applies once, when a job starts."""

SINCE_EVER = -(2**62)
"""Time before all records, in microseconds; sums with it fit in 64 bits."""


class _Source(Struct):
    """One file. `largest_us` only grows; `fed_us` is the clock when it appeared or last delivered a time.

    `ended`: it was read to its end once.
    """

    fed_us: int
    largest_us: int = SINCE_EVER
    at_end: bool = False
    ended: bool = False


class Watermark:
    """Watermark over the sources of one job.

    A record may be `lateness_us` behind the largest timestamp. A source that is not live must be silent at
    its end for `idle_us` before the clock takes over. See `LIVE_US`.

    Attributes:
        until_us: end of the job; None: it has none.
    """

    @safeguard("lateness")
    def __init__(self, lateness_us: int = 0, *, idle_us: int = IDLE_US, live_us: int = LIVE_US) -> None:
        self._lateness_us = lateness_us
        self._idle_us = idle_us
        self._live_us = live_us
        self.until_us: int | None = None
        self._sources: dict[Hashable, _Source] = {}
        self._reached_before: dict[Hashable, int] = {}
        self._value_us = SINCE_EVER
        self._empty_since_us: int | None = None
        self._paused_us: int | None = None

    @property
    def value_us(self) -> int:
        """Return the event time below which no more records come; `SINCE_EVER` while it is unknown."""
        return self._value_us

    def fed(self, source: Hashable, largest_us: int | None, now_us: int) -> None:
        """Note that a source delivered records.

        `largest_us` is their largest timestamp, None if none is usable.
        """
        state = self._source(source, now_us)
        state.at_end = False
        if largest_us is not None:
            state.fed_us = now_us
            state.largest_us = max(state.largest_us, largest_us)

    def resumed(self, sources: Iterable[Hashable], reached_us: int) -> None:
        """Restore the state after a restart: the watermark had passed `reached_us`, with these sources."""
        self._reached_before = dict.fromkeys(sources, max(SINCE_EVER, reached_us))

    def observe(
        self,
        sources: Iterable[tuple[Hashable, bool]],
        now_us: int,
        agreed_us: int | None = None,
        latest_us: int | None = None,
    ) -> int:
        """Process the outcome of a poll; updates and returns the watermark.

        `sources` are all current sources, each with whether it was read to its end. `now_us` is the wall
        clock before the poll; `agreed_us` the same, limited by most agents' clocks (None: no limit);
        `latest_us` the later one of both clocks.
        """
        present = dict(sources)
        for gone in [source for source in self._sources if source not in present]:
            del self._sources[gone]
        for source, at_end in present.items():
            state = self._source(source, now_us)
            state.at_end, state.ended = at_end, state.ended or at_end
            state.fed_us = min(state.fed_us, now_us)  # records were taken by the later clock
        if self._paused_us is None:
            by_clock_us = (now_us if agreed_us is None else agreed_us) - clock_lag_us(self._lateness_us)
            latest_us = now_us if latest_us is None else latest_us
            self._value_us = max(self._value_us, self._reached(now_us, by_clock_us, latest_us))
        return self._value_us

    def _source(self, source: Hashable, now_us: int) -> _Source:
        state = self._sources.get(source)
        if state is None:
            before_us = self._reached_before.pop(source, SINCE_EVER)
            state = self._sources[source] = _Source(now_us, before_us)
        return state

    def pause(self, now_us: int) -> None:
        """Note that back-pressure pauses the reader."""
        if self._paused_us is None:
            self._paused_us = now_us

    def resume(self, now_us: int) -> None:
        """Note that the reader continues; the pause does not count as idle time of any source."""
        if self._paused_us is None:
            return
        away_us = max(0, now_us - self._paused_us)
        self._paused_us = None
        for state in self._sources.values():
            state.fed_us += away_us
        if self._empty_since_us is not None:
            self._empty_since_us += away_us

    def clock_counts_us(self, now_us: int) -> int | None:
        """Return the next time after `now_us` at which the clock may begin to count; None: never."""
        silent = (state for state in self._sources.values() if state.at_end)
        times = [state.fed_us + self._patience_us(state) for state in silent]
        if self._empty_since_us is not None:
            times.append(self._empty_since_us + self._empty_us)
        if self.until_us is not None:
            times.append(self.until_us + clock_lag_us(self._lateness_us))
        return min((each for each in times if each > now_us), default=None)

    @property
    def _empty_us(self) -> int:
        return self._idle_us * (UNFED_FACTOR if self.until_us is None else 1)

    def _patience_us(self, state: _Source) -> int:
        return self._idle_us * (UNFED_FACTOR if state.largest_us == SINCE_EVER else 1)

    def _reached(self, now_us: int, by_clock_us: int, latest_us: int) -> int:
        if not self._sources:
            if self._empty_since_us is None:
                self._empty_since_us = now_us
            idle = now_us - self._empty_since_us >= self._empty_us
            return by_clock_us if idle else SINCE_EVER
        self._empty_since_us = None
        return min(
            self._reached_by(state, now_us, by_clock_us, latest_us) for state in self._sources.values()
        )

    def _reached_by(self, state: _Source, now_us: int, by_clock_us: int, latest_us: int) -> int:
        if self.until_us is not None and not state.ended:
            return SINCE_EVER
        behind_us = max(SINCE_EVER, min(state.largest_us - self._lateness_us, latest_us))
        if state.largest_us > now_us + BEHIND_US:
            by_clock_us = latest_us - clock_lag_us(self._lateness_us)
        if not state.at_end:
            return behind_us
        live = abs(now_us - state.largest_us) <= self._live_us or state.largest_us > now_us
        over = self.until_us is not None and by_clock_us >= self.until_us
        if live or over or now_us - state.fed_us >= self._patience_us(state):
            return max(behind_us, by_clock_us)
        return behind_us


def earlier_and_later(now_us: int, peers_us: int | None) -> tuple[int, int]:
    """Return the earlier and the later one of this agent's wall clock and that of most peers (D-13)."""
    return (now_us, now_us) if peers_us is None else (min(now_us, peers_us), max(now_us, peers_us))


@safeguard("clock-lag")
def clock_lag_us(lateness_us: int) -> int:
    """Return how far the watermark of a source at its end stays behind the clock."""
    return max(lateness_us, WRITING_US)
