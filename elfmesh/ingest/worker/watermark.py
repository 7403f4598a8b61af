"""The watermark of one job at one agent (D-12): below it, no more records are expected from here.

It is the minimum over the sources (files) of what each has reached, and never goes back:

- a source with unread lines has reached its largest timestamp minus the lateness;
- a source read to its end advances with the clock (minus the lateness, at least `WRITING_US`): at once if its
  newest timestamp was close to the wall clock, otherwise (a replay) after `idle_us` without usable records;
- a source that never had a usable record, or no source at all, lets the clock count after `UNFED_FACTOR`
  times `idle_us`, because what will come may be live or a replay;
- after a restart, a source has reached what the sealed frames had sealed, and is as live or idle as it was;
- the clock is the agent's own, and never ahead of what most of its peers' clocks show (`agreed_us`);
- no record moves it beyond the clock: one wrong time must not make all others late.

While back-pressure pauses the reader nothing moves. `now_us` is the wall clock *before* the poll, because
what was written after it may have been missed. Safety never depends on it: a wrong clock makes records late,
and late records are counted.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from elfmesh.safeguards import safeguard

IDLE_US = 5_000_000
LIVE_US = 5_000_000
"""A newest timestamp this close to the wall clock means that the source is being written now."""

WRITING_US = 50_000
"""Between the moment a writer stamps a record and the moment the record is in the file: as long as this the
clock alone promises nothing, or records at the end of every interval would be late now and then."""

UNFED_FACTOR = 2
"""How much longer than a silent replay an empty source is waited for; paid once, when a job starts."""

SINCE_EVER = -(2**62)
"""A time before all records, in microseconds; keeps sums within 64 bits."""


@dataclass(slots=True)
class _Source:
    """One file. `largest_us` only grows; `fed_us` is the clock when it appeared or last brought a time."""

    fed_us: int
    largest_us: int = SINCE_EVER
    at_end: bool = False


class Watermark:
    """Tracks the sources of one job.

    A record may be `lateness_us` behind the largest timestamp. A source that is not live must be silent at
    its end for `idle_us` before the clock takes over. See `LIVE_US`.
    """

    @safeguard("lateness")
    def __init__(self, lateness_us: int = 0, *, idle_us: int = IDLE_US, live_us: int = LIVE_US) -> None:
        self._lateness_us = lateness_us
        self._idle_us = idle_us
        self._live_us = live_us
        self._sources: dict[Hashable, _Source] = {}
        self._reached_before: dict[Hashable, int] = {}
        self._value_us = SINCE_EVER
        self._empty_since_us: int | None = None
        self._paused_us: int | None = None

    @property
    def value_us(self) -> int:
        """Event time below which nothing more comes; `SINCE_EVER` before anything is known."""
        return self._value_us

    def fed(self, source: Hashable, largest_us: int | None, now_us: int) -> None:
        """A source delivered records; `largest_us` is their largest timestamp, None if none was usable."""
        state = self._source(source, now_us)
        state.at_end = False
        if largest_us is not None:
            state.fed_us = now_us
            state.largest_us = max(state.largest_us, largest_us)

    def resumed(self, sources: Iterable[Hashable], reached_us: int) -> None:
        """After a restart: the watermark had passed `reached_us`, with these sources."""
        self._reached_before = dict.fromkeys(sources, max(SINCE_EVER, reached_us))

    def observe(
        self, sources: Iterable[tuple[Hashable, bool]], now_us: int, agreed_us: int | None = None
    ) -> int:
        """Report the outcome of a poll; moves and returns the watermark.

        `sources` are all there are now, each with whether it was read to its end. `now_us` is the wall clock
        before the poll; `agreed_us` the same, not ahead of what most agents' clocks show (None: it is not).
        """
        present = dict(sources)
        for gone in [source for source in self._sources if source not in present]:
            del self._sources[gone]
        for source, at_end in present.items():
            self._source(source, now_us).at_end = at_end
        if self._paused_us is None:
            by_clock_us = (now_us if agreed_us is None else agreed_us) - clock_lag_us(self._lateness_us)
            self._value_us = max(self._value_us, self._reached(now_us, by_clock_us))
        return self._value_us

    def _source(self, source: Hashable, now_us: int) -> _Source:
        state = self._sources.get(source)
        if state is None:
            before_us = self._reached_before.pop(source, SINCE_EVER)
            state = self._sources[source] = _Source(now_us, before_us)
        return state

    def pause(self, now_us: int) -> None:
        """The reader stops because of back-pressure."""
        if self._paused_us is None:
            self._paused_us = now_us

    def resume(self, now_us: int) -> None:
        """The reader goes on; the time in between counts for no log as idle."""
        if self._paused_us is None:
            return
        away_us = max(0, now_us - self._paused_us)
        self._paused_us = None
        for state in self._sources.values():
            state.fed_us += away_us
        if self._empty_since_us is not None:
            self._empty_since_us += away_us

    def _reached(self, now_us: int, by_clock_us: int) -> int:
        if not self._sources:
            if self._empty_since_us is None:
                self._empty_since_us = now_us
            idle = now_us - self._empty_since_us >= UNFED_FACTOR * self._idle_us
            return by_clock_us if idle else SINCE_EVER
        self._empty_since_us = None
        return min(self._reached_by(state, now_us, by_clock_us) for state in self._sources.values())

    def _reached_by(self, state: _Source, now_us: int, by_clock_us: int) -> int:
        behind_us = max(SINCE_EVER, min(state.largest_us - self._lateness_us, now_us))
        if not state.at_end:
            return behind_us
        live = abs(now_us - state.largest_us) <= self._live_us or state.largest_us > now_us
        patience_us = self._idle_us * (UNFED_FACTOR if state.largest_us == SINCE_EVER else 1)
        if live or now_us - state.fed_us >= patience_us:
            return max(behind_us, by_clock_us)
        return behind_us


@safeguard("clock-lag")
def clock_lag_us(lateness_us: int) -> int:
    """How far the watermark of a source at its end stays behind the clock."""
    return max(lateness_us, WRITING_US)
