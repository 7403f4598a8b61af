"""Upkeep: one small maintenance task a second, so that the table stays correct when the agent is idle.

    most seconds     ping the next contact of a shuffled round (except recently active ones)
    every 5th        fetch the rows of a random sibling, by which new neighbours spread
    every 7th        ping a buried agent, or a seed that never answered, by which partitions heal
    every 30th       refresh a random row

Owns only the schedule. Cost: one request per second and agent, independent of the size of the overlay.
"""

from __future__ import annotations

from elfmesh.machine import Contact, Message
from elfmesh.overlay.context import Context
from elfmesh.overlay.detector import Detector
from elfmesh.overlay.joining import Joiner
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Pong
from elfmesh.overlay.table import Peer

PROBE_S = 1.0
EXCHANGE_EVERY = 5
REVIVE_EVERY = 7
REFRESH_EVERY = 30
RECEIVED_LATELY_S = 3.0
"""A contact that sent a message within this time needs no ping."""

_SKIPS_MAX = 8


class Upkeep:
    """Maintenance schedule of one agent.

    Args:
        context: shared context.
        members: has the buried agents.
        detector: notified of silent contacts.
        joiner: fetches rows, refreshes, pings seeds.
        every_s: the period.
    """

    def __init__(
        self,
        context: Context,
        members: Membership,
        detector: Detector,
        joiner: Joiner,
        *,
        every_s: float = PROBE_S,
    ) -> None:
        self._context = context
        self._members = members
        self._detector = detector
        self._joiner = joiner
        self._every_s = every_s
        self._round: list[int] = []
        self._beat = 0

    def start(self) -> None:
        """Start the schedule at a random phase; starting again only changes the phase."""
        context = self._context
        context.timers.set("upkeep", context.now + self._every_s * context.rng.random(), self._tick)

    def _tick(self) -> None:
        context = self._context
        context.timers.set("upkeep", context.in_time(self._every_s), self._tick)
        self._beat += 1
        self._members.sweep()
        if self._beat % REVIVE_EVERY == 0 or not len(context.table):
            self._revive()
        if self._joiner.joined and self._beat % REFRESH_EVERY == 0 and context.table.rows():
            self._joiner.refresh(context.rng.randrange(0, context.table.rows()))
        if self._joiner.joined and self._beat % EXCHANGE_EVERY == 0 and len(context.table):
            self._joiner.fetch_rows(context.rng.choice(context.table.siblings()).contact)
        else:
            self._probe()

    def _probe(self) -> None:
        peer = self._next()
        if peer is None:
            return

        def done(answer: Message | None, _: Contact) -> None:
            if isinstance(answer, Pong):
                self._members.hear_obituaries(answer.obituaries)
            else:
                self._detector.examine(peer, 1)

        self._context.count("probes")
        self._context.ping(peer.contact, peer, done)

    def _next(self) -> Peer | None:
        table, now = self._context.table, self._context.now
        for _ in range(_SKIPS_MAX):
            if not self._round:
                self._round = list(table.entries)
                self._context.rng.shuffle(self._round)
                if not self._round:
                    return None
            peer = table.entries.get(self._round.pop())
            if peer is not None and now - peer.received > RECEIVED_LATELY_S:
                return peer
        return None

    def _revive(self) -> None:
        """Ping a buried agent, or a seed that never answered."""
        context = self._context
        graves = self._members.graves()
        seeds = self._joiner.unmet(all_lost=not len(context.table)) if self._joiner.joined else []
        if not graves and not seeds:
            return
        chosen = context.rng.randrange(0, len(graves) + len(seeds))
        if chosen < len(graves):
            context.ping(graves[chosen], None, lambda answer, sender: None)  # Membership processes the answer
        else:
            self._joiner.meet(seeds[chosen - len(graves)])
