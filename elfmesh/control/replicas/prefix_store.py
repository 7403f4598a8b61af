"""Prefixes of members that are missing from open intervals: chains of open panes that standbys have sent.

Owns the chains at the master and what they contain of an interval. A prefix is no coverage: it never makes an
interval complete, and any contribution of its member takes its place.

Invariants: a chain counts as far as its deltas follow each other without a gap, for a member on the roster,
in intervals that the version of the deltas evaluates
and that the member had not sealed. Of several chains of a member, the one with the most
records of the interval counts, because each begins with the same records. At most `HELD_BYTES_MAX` are held.

Paper: PPA V-B (the output of a replica takes the place of that of a failed task).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from elfmesh.contribution import split
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan, read_plan
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.messages_standby import Delta, PaneDelta, Prefix, is_sound_delta
from elfmesh.interval_map import END, numbers
from elfmesh.safeguards import safeguard

HELD_BYTES_MAX = 64 << 20
PANE_BYTES = 64


@dataclass(frozen=True, slots=True)
class Included:
    """A prefix of one member in one interval."""

    number: int
    contributed: int
    filtered: int
    until_us: int
    payloads: tuple[bytes, ...]

    @property
    def records(self) -> int:
        return self.contributed + self.filtered


@dataclass(slots=True)
class _Chain:
    """One chain.

    Attributes:
        read: first open interval and newest event time of each delta.
        panes: by version and pane: what each delta adds, with its first open interval.
    """

    nbytes: int = 0
    refused: bool = False
    read: list[tuple[int, int]] = field(default_factory=list)
    panes: dict[tuple[int, int], list[tuple[int, PaneDelta, bytes]]] = field(default_factory=dict)

    def until_us(self, interval: int) -> int:
        """Return the newest event time of the deltas that add to an interval; 0 if none does."""
        return max((until_us for first, until_us in self.read if first <= interval), default=0)


class PrefixStore:
    """The prefixes of one job in one term.

    Args:
        stages: versions of the job.
        book: its roster.
    """

    def __init__(self, context: Context, stages: Sequence[Stage], book: RosterBook) -> None:
        self._context, self._stages, self._book = context, stages, book
        self._chains: dict[bytes, dict[tuple[int, int], _Chain]] = {}
        self.nbytes = 0

    def take(self, message: Prefix, payload: bytes) -> int:
        """Add deltas; return the bit set of the members of which something is new."""
        sizes = [sum(each.size for each in delta.panes) for delta in message.deltas]
        payloads = split(payload, sizes)
        if payloads is None or not all(map(is_sound_delta, message.deltas, sizes)):
            self._context.stats["control.malformed"] += 1
            return 0
        news = 0
        for delta, each in zip(message.deltas, payloads, strict=True):
            entries = [entry for entry in self._book.entries if entry.contact.id == delta.member]
            if delta.incarnation != self._stages[-1].manifest.incarnation or not entries:
                self._context.stats["control.misplaced"] += 1
            elif self._add(delta, each):
                news |= sum(1 << entry.number for entry in entries)
        return news

    def _add(self, delta: Delta, payload: bytes) -> bool:
        chain = self._chains.setdefault(delta.member, {}).setdefault((delta.boot, delta.chain), _Chain())
        size = len(payload) + PANE_BYTES * len(delta.panes)
        if chain.refused or not self._follows(chain, delta):
            return False
        if self.nbytes + size > HELD_BYTES_MAX:
            self._context.stats["control.prefix_no_room"] += 1
            return False
        chain.read.append((delta.first, delta.until_us))
        chain.nbytes += size
        self.nbytes += size
        at = 0
        for pane in delta.panes:
            known = chain.panes.setdefault((pane.evaluated, pane.pane), [])
            known.append((delta.first, pane, payload[at : at + pane.size]))
            at += pane.size
        return True

    @staticmethod
    @safeguard("chain-order:master")
    def _follows(chain: _Chain, delta: Delta) -> bool:
        return delta.seq == len(chain.read)

    @staticmethod
    @safeguard("prefix-of-missing")
    def eligible(required: int, missing: int, inside: int) -> int:
        """Return the expected members whose prefixes count: no tree has anything of them."""
        return required & missing & ~inside

    def included(self, interval: int, members: int) -> list[Included]:
        """Return the prefixes of some members (bit set) in an interval, by number."""
        if not self._chains:
            return []
        stage = stage_at(self._stages, interval)
        panes = read_plan(stage.manifest.text).panes(interval)
        found = [self._of(number, interval, stage.evaluated, panes) for number in numbers(members)]
        return [each for each in found if each is not None and each.records]

    def _of(self, number: int, interval: int, evaluated: int, panes: range) -> Included | None:
        entry = self._book.entry(number)
        chains = {} if entry is None else self._chains.get(entry.contact.id, {})
        best: Included | None = None
        for chain in chains.values():
            deltas = [
                (each, payload)
                for pane in panes
                for first, each, payload in self._of_version(chain, evaluated, pane)
                if self._is_open(first, interval)
            ]
            one = Included(
                number,
                sum(pane.contributed for pane, _ in deltas),
                sum(pane.filtered for pane, _ in deltas),
                chain.until_us(interval),
                tuple(payload for _, payload in deltas if payload),
            )
            if not chain.refused and (best is None or one.records > best.records):
                best = one
        return best

    @staticmethod
    @safeguard("deltas-of-the-version")
    def _of_version(chain: _Chain, evaluated: int, pane: int) -> Sequence[tuple[int, PaneDelta, bytes]]:
        return chain.panes.get((evaluated, pane), ())

    @staticmethod
    @safeguard("prefix-ends-with-its-seal")
    def _is_open(first: int, interval: int) -> bool:
        """Whether a delta has all records of an interval since the delta before it.

        Otherwise the member had sealed the interval, and the delta has its panes for later windows only.
        """
        return first <= interval

    def first(self, start: int, stop: int, members: int) -> int | None:
        """Return the first interval in [start, stop) for which a prefix has records that contribute."""
        found = [
            interval
            for number in numbers(members)
            if self._chains
            if (entry := self._book.entry(number)) is not None
            for chain in self._chains.get(entry.contact.id, {}).values()
            for (_, pane), deltas in chain.panes.items()
            if (begin := min((first for first, each, _ in deltas if each.contributed), default=stop)) < stop
            for interval in self._with(pane, max(start, begin), stop)[:1]
        ]
        return min(found, default=None)

    def _with(self, pane: int, start: int, stop: int) -> range:
        """Return the intervals in [start, stop) whose windows contain a pane."""
        plan: JobPlan = read_plan(stage_at(self._stages, start).manifest.text)
        slide, size = plan.slide_us // plan.pane_us, plan.size_us // plan.pane_us
        return range(max(start, -((size - 1 - pane) // slide)), min(stop, pane // slide + 1))

    def refuse(self, interval: int) -> None:
        """Ignore the chains with records of an interval, because they cannot be merged."""
        stage = stage_at(self._stages, interval)
        panes = read_plan(stage.manifest.text).panes(interval)
        for chains in self._chains.values():
            for chain in chains.values():
                if not chain.refused and any((stage.evaluated, pane) in chain.panes for pane in panes):
                    self._context.stats["control.prefix_refused"] += 1
                    self.nbytes -= chain.nbytes
                    chain.refused, chain.nbytes = True, 0
                    chain.panes.clear()

    def drop_below(self, interval: int) -> None:
        """Drop chains without records of the window of an interval, or of later ones."""
        begin_us = read_plan(stage_at(self._stages, interval).manifest.text).window(interval)[0]
        for agent, chains in list(self._chains.items()):
            for place in [place for place, each in chains.items() if each.until_us(END) < begin_us]:
                self.nbytes -= chains.pop(place).nbytes
            if not chains:
                del self._chains[agent]
