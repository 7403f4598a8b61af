"""Context of all components of the control machine: identity, time, timers and effects.

Owns the effects of the current step, the open requests (lookups, probes, multicasts, reads of a log) and the
timers. A message of this agent to itself is not sent; the machine handles it after the current one.

Invariants: `now` is the time of the current step. Timers that are due at the same time fire in the order in
which they were set. A request gets its answer once, or None after the time-out.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from elfmesh.control.causes import NO_CAUSE, Causes
from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.control.jobs.terms import Participant
from elfmesh.control.protocol.events import LogRead, ReadLog
from elfmesh.control.protocol.messages import Answered, Ask, pack, unpack
from elfmesh.errors import ProtocolError
from elfmesh.machine import Caused, Contact, Effect, Message, Rng, Send
from elfmesh.overlay.events import Lookup, LookupDone, Probe, ProbeDone, Route
from elfmesh.overlay.lookup import K
from elfmesh.srt.events import Publish, PublishDone

QUESTION_S = 15.0
"""Time-out of a lookup, a probe or a read of a log."""

PUBLISH_GRACE_S = 2.0
"""Time after its own time-out at which a multicast is given up, because another agent may be the root."""

GONE_S = 30.0
"""Time for which an agent that the overlay has lost counts as gone, unless a message of it arrives."""

GONE_MAX = 1024

NUMBERS_BITS, BOOTS_MAX = 36, 1 << 26
"""Bits of a token within a boot, and number of different boots. Boots have different tokens, because an
answer to a token of one boot may arrive in the next one. At a thousand tokens a second the bits last two
years."""

ROUND_S = 1.0
"""Period of this agent's rounds. They are in time with the overlay's probes."""

NOT_ROOT_S = 0.02
"""Delay after which a multicast in a tree of another root fails."""


class Timer:
    """A scheduled call."""

    __slots__ = ("at", "call", "cause", "order")

    def __init__(
        self, at: float, order: int, call: Callable[[], None], cause: tuple[bytes, range] = NO_CAUSE
    ) -> None:
        self.at, self.order, self.call, self.cause = at, order, call, cause

    def cancel(self) -> None:
        self.call = _nothing

    def __lt__(self, other: Timer) -> bool:
        return (self.at, self.order) < (other.at, other.order)


def _nothing() -> None:
    return None


class Alarm:
    """A call that is scheduled at most once at a time.

    Args:
        call: the call.
    """

    __slots__ = ("_call", "_context", "_timer")

    def __init__(self, context: Context, call: Callable[[], None]) -> None:
        self._context, self._call = context, call
        self._timer: Timer | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, delay_s: float) -> None:
        """Schedule the call at now + `delay_s`, instead of an earlier setting."""
        self.cancel()
        self._timer = self._context.after(delay_s, self._fire)

    def set_at(self, at: float) -> None:
        """Schedule the call at a time, instead of an earlier setting."""
        self.set(max(at - self._context.now, 0.001))

    def wake(self, at: float) -> None:
        """Schedule the call at a time, unless it is scheduled before."""
        if self._timer is None or self._timer.at > at:
            self.set_at(at)

    def cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _fire(self) -> None:
        self._timer = None
        self._call()


class Context:
    """Context of one agent's control machine.

    Args:
        me: this agent.
        name: name of this agent.
        rng: random numbers for jitter and incarnations.
        facts: returns the host's information about this agent, by topic ("agent", "trees"); "logs" and
            "reading" are about the job of a manifest.
        policy: what jobs may use at this agent.
    """

    def __init__(
        self, me: Contact, name: str, rng: Rng, facts: Callable[..., dict[str, Any]], policy: Policy = OPEN
    ) -> None:
        self.policy = policy
        self.me, self.name, self.rng, self.facts = me, name, rng, facts
        self.causes = Causes(me.id, me.incarnation)
        self._phase = (int.from_bytes(me.id) & 0xFFFF) / 0x10000
        self.now = 0.0
        self.joined_at = self.grown_at = self.changed_at = float("-inf")
        self.out: list[Effect] = []
        self.inbox: deque[tuple[Message, bytes]] = deque()
        self.stats: Counter[str] = Counter()
        self.roots: dict[bytes, None] = {}
        self._gone: OrderedDict[bytes, tuple[float, bool]] = OrderedDict()
        self._timers: list[Timer] = []
        self._count = (me.incarnation % BOOTS_MAX) << NUMBERS_BITS
        self._open: dict[int, tuple[Callable[[Any], None], Timer]] = {}
        self._asked: dict[int, tuple[Callable[[Answered | None, bytes], None], Timer]] = {}

    @property
    def participant(self) -> Participant:
        """This agent as a member of a job."""
        return Participant(self.me, self.name, self.policy.keep_in, self.policy.standby_bytes > 0)

    def lost(self, agent: bytes, *, stopped: bool = False) -> None:
        """Note that the overlay has lost an agent, which failed its probes, stopped or restarted."""
        self._gone[agent] = self.now, stopped
        self.changed_at = self.now
        self._gone.move_to_end(agent)
        while len(self._gone) > GONE_MAX:
            self._gone.popitem(last=False)

    def met(self, agent: bytes) -> None:
        self._gone.pop(agent, None)

    def grown(self, agent: bytes) -> None:
        """Note that the overlay has added an agent."""
        self.met(agent)
        self.grown_at = self.changed_at = self.now

    def is_gone(self, agent: bytes) -> bool:
        """Return whether the overlay has lost an agent within `GONE_S`."""
        return self.gone_since(agent) is not None

    def gone_since(self, agent: bytes) -> float | None:
        """Return when the overlay has lost an agent that is gone; None: it is not."""
        since, _ = self._gone.get(agent, (float("-inf"), False))
        return since if self.now - since < GONE_S else None

    def has_stopped(self, agent: bytes) -> bool:
        """Return whether an agent that is gone has said good-bye."""
        return self.is_gone(agent) and self._gone[agent][1]

    def emit(self, effect: Effect) -> None:
        self.out.append(effect)

    def send(self, to: Contact, message: Message, payload: bytes = b"", *, lane: int = 0) -> None:
        """Send a message to an agent, at most once; one to this agent is handled after the current event."""
        message = self._caused(message)
        if to.id == self.me.id:
            self.inbox.append((message, payload))
        else:
            self.out.append(Send(to, message, payload, lane))

    def route(self, key: bytes, message: Message, payload: bytes = b"") -> None:
        """Send a message to the agent closest to `key`, at most once."""
        self.out.append(Route(key, pack(message), payload))

    def publish(
        self, tree: bytes, message: Message, timeout_s: float, then: Callable[[PublishDone | None], None]
    ) -> None:
        """Multicast a message in a tree; `then` receives the answers; None: another agent is the root."""
        if tree not in self.roots:
            self.after(NOT_ROOT_S, lambda: then(None))
            return
        token = self._ask(then, timeout_s + PUBLISH_GRACE_S)
        self.out.append(Publish(tree, pack(self._caused(message)), timeout_s, token))

    def _caused(self, message: Message) -> Message:
        if isinstance(message, Caused) and self.causes.current:
            return replace(message, cause=self.causes.current)
        return message

    def unpacked(self, body: bytes) -> Message | None:
        """The message of a body that an agent has sent or stored; None, and counted, if it is malformed."""
        try:
            return unpack(body)
        except ProtocolError:
            self.stats["control.malformed"] += 1
            return None

    def lookup(self, key: bytes, then: Callable[[LookupDone | None], None], *, within_s: float = 0.0) -> None:
        """Find the agents closest to `key`; they may be known since `within_s` (see `Lookup`)."""
        self.out.append(Lookup(key, self._ask(then, QUESTION_S), within_s, K))

    def probe(
        self, contact: Contact, then: Callable[[ProbeDone | None], None], *, others: bool = False
    ) -> None:
        """Test whether an agent is reachable; `others`: also through other peers."""
        self.out.append(Probe(contact, self._ask(then, QUESTION_S), others))

    def read_log(
        self,
        job: bytes,
        incarnation: str,
        start: int | None,
        stop: int | None,
        limit: int,
        then: Callable[[LogRead | None], None],
        *,
        digest: bytes = b"",
    ) -> None:
        """Read records of a job's results log of this incarnation, or a page of rows."""
        self.out.append(ReadLog(self._ask(then, QUESTION_S), job, start, stop, limit, incarnation, digest))

    def ask_job(
        self,
        job: bytes,
        verb: str,
        body: bytes,
        timeout_s: float,
        then: Callable[[Answered | None, bytes], None],
        site: Contact | None = None,
    ) -> None:
        """Send a request to the master of a job, or to a site; `then` receives None after the time-out."""
        token = self.token()
        self._asked[token] = (then, self.after(timeout_s, lambda: self._silent(token)))
        ask = Ask(verb, job, body, self.me, token)
        if site is None:
            self.route(job, ask)
        else:
            self.send(site, ask)

    def _silent(self, token: int) -> None:
        then, _ = self._asked.pop(token)
        then(None, b"")

    def on_answered(self, message: Answered, payload: bytes) -> None:
        """Pass on the answer of a job's master; late or repeated answers are ignored."""
        waiting = self._asked.pop(message.token, None)
        if waiting is not None:
            waiting[1].cancel()
            waiting[0](message, payload)

    def answer(self, token: int, event: object) -> None:
        """Pass on the answer to an open request; other answers are ignored."""
        waiting = self._open.pop(token, None)
        if waiting is not None:
            waiting[1].cancel()
            waiting[0](event)

    def after(self, delay_s: float, call: Callable[[], None]) -> Timer:
        self._count += 1
        timer = Timer(self.now + delay_s, self._count, call, self.causes.here)
        heapq.heappush(self._timers, timer)
        return timer

    def jittered(self, delay_s: float) -> float:
        """Return `delay_s` or up to a quarter more, so that many agents do not send at the same time."""
        return delay_s * self.rng.uniform(1.0, 1.25)

    def in_round(self, delay_s: float, call: Callable[[], None]) -> Timer:
        """Schedule a call in the first round after `delay_s` or up to a quarter more.

        The upkeep of many jobs happens in one step, because waking an agent costs more than the upkeep.
        """
        rounds = math.ceil((self.now + self.jittered(delay_s)) / ROUND_S - self._phase)
        return self.after((rounds + self._phase) * ROUND_S - self.now, call)

    def fire(self) -> None:
        while self._timers and self._timers[0].at <= self.now:
            timer = heapq.heappop(self._timers)
            self.causes.follow(*timer.cause)
            timer.call()

    def note(
        self,
        kind: str,
        job: bytes,
        start: int,
        stop: int,
        detail: str = "",
        *,
        peer: bytes = b"",
        leads: bool = True,
    ) -> None:
        """Note a step of this agent for the intervals [start, stop) of a job (`causes`)."""
        self.causes.note(self.now, kind, job, start, stop, peer=peer, detail=detail, leads=leads)

    @property
    def deadline(self) -> float | None:
        while self._timers and self._timers[0].call is _nothing:
            heapq.heappop(self._timers)
        return self._timers[0].at if self._timers else None

    def token(self) -> int:
        """Return a number that no other request of this agent has."""
        self._count += 1
        return self._count

    def source(self) -> str:
        """Return a name for a sequence of numbers that this agent counts."""
        return f"{self.name}/{self.token()}"

    def _ask(self, then: Callable[[Any], None], timeout_s: float) -> int:
        token = self.token()
        self._open[token] = (then, self.after(timeout_s, lambda: self.answer(token, None)))
        return token
