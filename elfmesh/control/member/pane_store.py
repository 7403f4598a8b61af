"""What an agent holds for others: chains of their open panes, in memory (STANDBY).

Owns the chains. It merges nothing and knows no intervals: on request it sends the master the deltas as they
came.

Invariants: a delta is accepted only directly behind its predecessor. A member has at most two chains: the
present one, and the one before it until the present one has reached the same event time, so that a second
crash during a replay loses nothing. At most `limit_bytes` are held; a delta beyond that is refused.

Paper: PPA II-B.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from elfmesh.control.context import Context
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.lanes import BULK_LANE
from elfmesh.control.protocol.messages_safety import Surrender
from elfmesh.control.protocol.messages_standby import Chained, Delta, Prefix, is_sound_delta
from elfmesh.interval_map import numbers
from elfmesh.limits import DATA_FRAME_BYTES_MAX
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of

DELTA_BYTES, PANE_BYTES = 512, 64
"""Memory of a delta and of each of its panes beside the payload."""

PREFIX_PANES_MAX = 8192
"""Maximum number of panes in one answer to the master."""

ANSWERS_MAX = 3
"""Number of times that the same chain is sent to one master, because an answer may be lost."""


Place = tuple[int, int]
"""Boot and number of a chain."""


@dataclass(slots=True)
class HeldChain:
    """One chain; `answered` is to whom and up to which delta it was sent, and how often."""

    place: Place
    deltas: list[tuple[Delta, bytes]] = field(default_factory=list)
    nbytes: int = 0
    answered: tuple[int, int, int] = (0, 0, 0)

    @property
    def next(self) -> int:
        return len(self.deltas)

    @property
    def until_us(self) -> int:
        return self.deltas[-1][0].until_us if self.deltas else 0


class PaneStore:
    """The chains at one agent.

    Attributes:
        limit_bytes: maximum size of all chains (`limits.standby`).
        nbytes: their size.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._chains: dict[tuple[bytes, str], dict[bytes, list[HeldChain]]] = {}
        self.limit_bytes, self.nbytes = context.policy.standby_bytes, 0

    def on_delta(self, sender: Contact, message: Delta, payload: bytes) -> None:
        """Take a delta and acknowledge it, or answer with the number that is missing."""
        if sender.id != message.member or not is_sound_delta(message, len(payload)):
            self._context.stats["control.malformed"] += 1
            return
        members = self._chains.setdefault((message.job, message.incarnation), {})
        chains = members.setdefault(message.member, [])
        place = (message.boot, message.chain)
        chain = chains[-1] if chains and chains[-1].place == place else HeldChain(place)
        if chains and place < chains[-1].place:
            self._context.stats["control.chain_refused"] += 1
            return
        if self._follows(chain, message):
            if self.nbytes + _bytes_of(message, payload) > self.limit_bytes:
                self._context.stats["control.chain_no_room"] += 1
                self._acknowledge(sender, message, chain.next, has_room=False)
                return
            if not message.seq:
                chains.append(chain)
            self._add(chain, message, payload)
            self._drop_earlier(chains)
        elif message.seq >= chain.next:
            self._context.stats["control.chain_refused"] += 1
        self._acknowledge(sender, message, chain.next)

    @staticmethod
    @safeguard("chain-order:standby")
    def _follows(chain: HeldChain, message: Delta) -> bool:
        return message.seq == chain.next

    def _acknowledge(self, sender: Contact, message: Delta, following: int, *, has_room: bool = True) -> None:
        about = (message.job, message.incarnation, message.boot, message.chain, following)
        self._context.send(sender, Chained(*about, has_room=has_room))

    def _add(self, chain: HeldChain, message: Delta, payload: bytes) -> None:
        size = _bytes_of(message, payload)
        chain.deltas.append((message, payload))
        chain.nbytes += size
        self.nbytes += size

    @safeguard("earlier-chain-stays")
    def _drop_earlier(self, chains: list[HeldChain]) -> None:
        """Drop what the newest chain has reached, and all but the longest of what it has not reached."""
        newest = chains[-1]
        earlier = [each for each in chains[:-1] if each.until_us > newest.until_us]
        kept = max(earlier, key=lambda each: each.until_us, default=None)
        for each in chains[:-1]:
            if each is not kept:
                self.nbytes -= each.nbytes
        chains[:] = [newest] if kept is None else [kept, newest]

    def members_are(self, job: bytes, incarnation: str, members: Collection[bytes]) -> None:
        """Drop the chains of agents that are no members any more."""
        held = self._chains.get((job, incarnation), {})
        for agent in [agent for agent in held if agent not in members]:
            self.nbytes -= sum(each.nbytes for each in held.pop(agent))

    def released(self, job: bytes, incarnation: str, begin_us: int) -> None:
        """Drop chains without records of windows from a time on, because earlier windows are closed."""
        for chains in self._chains.get((job, incarnation), {}).values():
            for each in [each for each in chains if each.until_us < begin_us]:
                chains.remove(each)
                self.nbytes -= each.nbytes

    def stopped(self, job: bytes, incarnation: str) -> None:
        self.members_are(job, incarnation, ())
        self._chains.pop((job, incarnation), None)

    def on_surrender(self, message: Surrender, terms: Terms | None) -> None:
        """Send the master the chains of the members that it lacks.

        Args:
            message: the request.
            terms: of this agent as a member; the numbers of another epoch may be those of other agents.
        """
        held = self._chains.get((message.job, message.incarnation))
        if not held or terms is None or not self._numbers_mean(terms, message):
            return
        asked = {message.number, *(numbers(bits_of(message.members)) if message.members else ())}
        for agent in dict.fromkeys(each.contact.id for each in terms.members if each.number in asked):
            for chain in held.get(agent, ()):
                self._answer(chain, message)

    @staticmethod
    @safeguard("chains-of-the-epoch")
    def _numbers_mean(terms: Terms, message: Surrender) -> bool:
        return terms.epoch == message.epoch

    def _answer(self, chain: HeldChain, message: Surrender) -> None:
        epoch, reached, times = chain.answered
        again = (epoch, reached) == (message.epoch, chain.next)
        if again and times >= ANSWERS_MAX:
            return
        chain.answered = (message.epoch, chain.next, times + 1 if again else 1)
        piece: list[tuple[Delta, bytes]] = []
        size = panes = 0
        for delta, payload in chain.deltas:
            over = size + len(payload) > DATA_FRAME_BYTES_MAX or panes + len(delta.panes) > PREFIX_PANES_MAX
            if piece and over:
                self._send(message, piece)
                piece, size, panes = [], 0, 0
            piece.append((delta, payload))
            size, panes = size + len(payload), panes + len(delta.panes)
        self._send(message, piece)

    def _send(self, message: Surrender, piece: list[tuple[Delta, bytes]]) -> None:
        payload = b"".join(payload for _, payload in piece)
        prefix = Prefix(message.epoch, message.job, tuple(delta for delta, _ in piece))
        self._context.send(message.master, prefix, payload, lane=BULK_LANE if payload else 0)


def _bytes_of(message: Delta, payload: bytes) -> int:
    return len(payload) + DELTA_BYTES + PANE_BYTES * len(message.panes)
