"""Failure detector: pings a doubtful peer directly, then through other peers, then a last time.

    stage 0, 1   one ping each (a missed heartbeat or probe enters at stage 1: two misses)
    stage 2      a ping, and up to 3 other peers are asked to ping it; peers are notified of the suspect
    stage 3      the last ping, which gives the suspect time to refute
    then         buried

Any message from the peer ends the examination at any stage. Owns the examinations and the pings on behalf of
other agents. Does not depend on the structure of the table. Timeouts follow the peer's round trip within
limits and the lag of this agent's loop (calls.py). A broken connection shortens the timeouts but skips no
stage.

Invariant: there is one examination per peer at a time. A peer is declared dead only after four unanswered
stages, or after its own good-bye.
"""

from __future__ import annotations

from functools import partial

from elfmesh.machine import Contact, Message
from elfmesh.overlay.calls import Answered
from elfmesh.overlay.context import Context
from elfmesh.overlay.membership import Membership
from elfmesh.overlay.messages import Pong, Relay, Relayed
from elfmesh.overlay.table import Peer

HELPERS = 3
"""Peers that are asked to ping a suspect, in order to distinguish a dead peer from a broken path."""

FAST_TIMEOUT_S = 0.15
"""Timeout after a lost connection; four stages then take about 0.75 s."""

RELAYS_MAX = 64
"""Maximum number of concurrent pings on behalf of others; further requests are refused, so that no peer can
cause a flood."""

_SUSPECT_STAGE = 2
_DEAD_STAGE = 4


class _Case:
    __slots__ = ("fast", "outstanding", "peer", "stage")

    def __init__(self, peer: Peer, stage: int, fast: bool) -> None:
        self.peer, self.stage, self.fast = peer, stage, fast
        self.outstanding = 0


class Detector:
    """Examinations of one agent.

    Args:
        context: shared context.
        members: notified of suspects, cleared peers and deaths.
    """

    def __init__(self, context: Context, members: Membership) -> None:
        self._context = context
        self._members = members
        self._cases: dict[bytes, _Case] = {}
        self._relaying = 0

    def __len__(self) -> int:
        return len(self._cases)

    def examine(self, peer: Peer, stage: int = 0, *, fast: bool = False) -> None:
        """Begin an examination, or advance a running one to this stage."""
        case = self._cases.get(peer.contact.id)
        if case is None:
            case = self._cases[peer.contact.id] = _Case(peer, stage, fast)
        elif fast and case.stage < _SUSPECT_STAGE:
            case.fast = True
            case.stage += 1  # the ping was lost with its connection
        else:
            return
        self._enter(case)

    def received(self, peer: Peer) -> None:
        case = self._cases.pop(peer.contact.id, None)
        if case is not None and case.peer.suspect:
            case.peer.suspect = False
            self._context.count("suspects_cleared")
            self._members.cleared(peer)

    def gone(self, peer: Peer) -> None:
        self._cases.pop(peer.contact.id, None)

    def _patience(self, case: _Case) -> float:
        if case.fast:
            usual = 2 * self._context.lateness.usual
            trip = case.peer.rtt + 4 * case.peer.deviation if case.peer.rtt >= 0 else 0.0
            return min(max(FAST_TIMEOUT_S, trip), self._context.calls.timeout(case.peer)) + usual
        return self._context.calls.timeout(case.peer)

    def _enter(self, case: _Case) -> None:
        context, contact = self._context, case.peer.contact
        if case.stage >= _DEAD_STAGE:
            del self._cases[contact.id]
            self._members.bury(contact)
            return
        patience = self._patience(case)
        silent = partial(self._silent, case, case.stage)
        case.outstanding = 1
        if case.stage == _SUSPECT_STAGE:
            case.peer.suspect = True
            self._members.suspect(case.peer)
            case.outstanding += self._ask_helpers(contact, patience, silent)
        context.ping(contact, case.peer, silent, patience)

    def reach(self, contact: Contact, then: Answered) -> None:
        """Ping an agent once, also through other peers; `then` gets the first good answer, or None.

        The others are not asked for a buried agent, because they were before its burial.
        """
        peer, outstanding = self._members.peer(contact.id), 1

        def answered(answer: Message | None, sender: Contact) -> None:
            nonlocal outstanding
            is_good = isinstance(answer, Pong) or (isinstance(answer, Relayed) and answer.alive)
            if outstanding and (is_good or outstanding == 1):
                outstanding = 0
                then(answer if is_good else None, sender)
            outstanding = max(0, outstanding - 1)

        patience = self._context.calls.timeout(peer)
        if not self._members.is_quarantined(contact):
            outstanding += self._ask_helpers(contact, patience, answered)
        self._context.ping(contact, peer, answered, patience)

    def _ask_helpers(self, contact: Contact, patience: float, done: Answered) -> int:
        """Ask other peers to ping an agent; returns how many."""
        context = self._context
        entries = context.table.entries.values()
        others = [each for each in entries if each.contact.id != contact.id and not each.suspect]
        helpers = context.rng.sample(others, min(HELPERS, len(others)))
        for helper in helpers:
            rid = context.calls.next_rid()
            context.send(helper.contact, Relay(rid, contact))
            context.calls.wait(rid, helper.contact, Relayed, done, 2 * patience)
        return len(helpers)

    def _silent(self, case: _Case, stage: int, answer: Message | None, _: Contact) -> None:
        if self._cases.get(case.peer.contact.id) is not case or case.stage != stage:
            return
        if isinstance(answer, Relayed) and answer.alive:
            self._context.count("reached_only_through_others")
            self.received(case.peer)
            return
        case.outstanding -= 1
        if case.outstanding == 0:
            case.stage += 1
            self._enter(case)

    def relay(self, asker: Contact, message: Relay) -> None:
        """Ping `message.target` for a peer that cannot reach it, and report the outcome."""
        context, target = self._context, message.target
        if target.id == context.me.id:
            context.send(asker, Relayed(message.rid, True))
            return
        if self._relaying >= RELAYS_MAX or not context.acceptable(target):
            context.count("relays_refused")
            context.send(asker, Relayed(message.rid, False))
            return
        self._relaying += 1

        def done(answer: Message | None, _: Contact) -> None:
            self._relaying -= 1
            context.send(asker, Relayed(message.rid, isinstance(answer, Pong)))

        context.ping(target, self._members.peer(target.id), done)
