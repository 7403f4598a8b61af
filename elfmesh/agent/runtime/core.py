"""The core of one agent: combines overlay, trees and control plane into one state machine.

The module passes an effect of one machine to the machines for which it is an event, in order, until none is
left. Only effects that concern the outside world are returned. Its only state is which machine asked each
pending look-up.

Invariants: the order of effects depends only on the order of events. A message reaches only the machine that
its tag belongs to. A token of one machine never answers a request of another. Data of a host goes to no agent
that its rule excludes (`srt.residency`), whichever machine sends it.

Paper: ELF 2.1, Figure 2 (the layers of one agent).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from msgspec import structs

from elfmesh.api.authority import needs
from elfmesh.control.causes import Causes
from elfmesh.control.protocol import events as ctl
from elfmesh.control.protocol import messages as control_messages
from elfmesh.control.protocol.messages_residency import rule_of
from elfmesh.machine import Contact, Effect, Event, Machine, Received, Send, Tick, earliest
from elfmesh.overlay import events as ov
from elfmesh.overlay import messages as overlay_messages
from elfmesh.safeguards import safeguard
from elfmesh.srt import events as srt
from elfmesh.srt import messages as srt_messages
from elfmesh.srt.residency import ANYWHERE, Rule, allows
from elfmesh.wire import Codec

MESSAGES = (*overlay_messages.MESSAGES, *srt_messages.MESSAGES, *control_messages.MESSAGES)
STEPS_MAX = 100_000
"""Maximum number of internal events in one step. More indicates two machines that answer each other without
end."""

_TO_OVERLAY = (
    *(ov.Remember, ov.Start, ov.Lookup, ov.Route, ov.Watch, ov.Unwatch),
    *(ov.Probe, ov.ConnectionLost, ov.Leave),
)
_TO_FOREST = (
    srt.Subscribe,
    srt.Unsubscribe,
    srt.Retire,
    srt.Contribute,
    srt.Merged,
    srt.Release,
    srt.Recollect,
    srt.Hasten,
    srt.Publish,
    srt.MulticastAnswer,
    ov.PeerDown,
    ov.Digest,
    ov.SiblingsChanged,
)
_INSIDE = frozenset(
    {*_TO_OVERLAY, *_TO_FOREST, *ctl.INPUTS, ov.PeerUp, srt.Attached, srt.Detached, srt.Recollecting}
)
"""Effects that never leave the agent. Some have no receiver and exist for traces and tests."""
_AS_ROOT = (srt.Publish, srt.Recollect, srt.Hasten)
_QUESTIONS = (ov.Lookup, ov.Probe)
_ANSWERS = (ov.LookupDone, ov.ProbeDone)
_SEEN_OUTSIDE = frozenset({ov.Joined, ov.JoinFailed})
"""Effects that are passed on internally and also returned to the host."""


def codec() -> Codec:
    """Return the codec of all messages between agents. Raises ValueError if a message has no role."""
    undeclared = [kind.__name__ for kind in MESSAGES if kind.__name__ not in needs.MESSAGES]
    if undeclared:
        raise ValueError(f"{', '.join(undeclared)}: no role in elfmesh.api.authority.needs.MESSAGES")
    return Codec(MESSAGES)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The machine that asked a look-up or probe, and its token."""

    machine: Machine
    token: int


class Trees(Machine, Protocol):
    """The methods of the forest that the core calls."""

    def is_root(self, tree: bytes) -> bool: ...


class AgentCore:
    """State machine of one agent.

    Args:
        overlay: membership and routing.
        forest: reducer trees.
        control: jobs.
        causes: where steps are kept, those of the trees among them; None: nowhere.
        keep_in: which agents may get data of this host.

    Attributes:
        overtaken: orders to trees of which this agent is not the root any more.
        kept_in: messages that were not sent, because a rule excludes the receiver.
    """

    def __init__(
        self,
        overlay: Machine,
        forest: Trees,
        control: Machine,
        causes: Causes | None = None,
        keep_in: Rule = ANYWHERE,
    ) -> None:
        self._keep_in = keep_in
        self._causes = causes or Causes(b"", 0)
        self.overlay, self.forest, self.control = overlay, forest, control
        self._machines = (overlay, forest, control)
        self._readers: dict[type[Any], tuple[Machine, ...]] = {}
        for machine, kinds in ((overlay, _TO_OVERLAY), (forest, _TO_FOREST), (control, ctl.INPUTS)):
            for kind in kinds:
                if kind not in (Tick, Received):
                    self._readers[kind] = (*self._readers.get(kind, ()), machine)
        for machine, messages in (
            (overlay, overlay_messages.MESSAGES),
            (forest, srt_messages.MESSAGES),
            (control, control_messages.MESSAGES),
        ):
            for message in messages:
                self._readers[message] = (machine,)
        self._asked: dict[int, _Asked] = {}
        self._token = 0
        self.overtaken = self.kept_in = 0

    @property
    def deadline(self) -> float | None:
        """Earliest time at which a machine needs a `Tick`."""
        return earliest(self.overlay.deadline, self.forest.deadline, self.control.deadline)

    def step(self, event: Event, now: float) -> list[Effect]:
        """Apply an event and all internal events that follow from it. Returns the external effects."""
        outside: list[Effect] = []
        queue: deque[tuple[Machine, Event]] = deque()
        kind: type[Any] = type(event)
        self._causes.follow(b"")
        if type(event) is Received:
            message = event.message
            if type(message) is srt_messages.SegmentUp:
                self._received(event.sender, message, now)
            queue.extend([(machine, event) for machine in self._readers[type(message)]])
        elif kind is Tick:
            # only machines that are due, so that a tick costs no more than necessary
            for machine in self._machines:
                deadline = machine.deadline
                if deadline is not None and deadline <= now:
                    queue.append((machine, event))
        else:
            queue.extend([(machine, event) for machine in self._readers[kind]])
        for _ in range(STEPS_MAX):
            if not queue:
                return outside
            machine, event = queue.popleft()
            if isinstance(event, _AS_ROOT) and not self.forest.is_root(event.tree):
                self.overtaken += 1  # the order was given before this agent stopped being the root
                continue
            for effect in machine.step(event, now):
                if type(effect) is Send:  # the most frequent effect
                    if not self._may_leave(effect):
                        self.kept_in += 1
                        continue
                    segment = type(effect.message) is srt_messages.SegmentUp
                    outside.append(self._sent(effect, now) if segment else effect)
                elif type(effect) is srt.MergeRequest:
                    about = (effect.tree, effect.interval, effect.interval + 1)
                    self._causes.note(now, "merged", *about, detail=f"{len(effect.parts)} parts")
                    outside.append(effect)
                else:
                    self._pass_on(machine, effect, queue, outside)
        raise RuntimeError(f"the machines do not come to rest; last was {type(event).__name__} to {machine}")

    @safeguard("kept-in")
    def _may_leave(self, effect: Send) -> bool:
        """Whether a message may be sent: the one place through which data of hosts leaves this agent."""
        return allows(rule_of(effect.message, self._keep_in), effect.to)

    def _received(self, sender: Contact, message: srt_messages.SegmentUp, now: float) -> None:
        segment, about = message.segment, (message.tree, message.segment.start, message.segment.stop)
        self._causes.follow(message.cause or b"")
        self._causes.note(now, "received", *about, peer=sender.id, detail=segment.coverage)

    def _sent(self, effect: Send, now: float) -> Send:
        message = effect.message
        assert isinstance(message, srt_messages.SegmentUp)
        segment, about = message.segment, (message.tree, message.segment.start, message.segment.stop)
        self._causes.note(now, "sent", *about, peer=effect.to.id, detail=segment.coverage)
        return structs.replace(effect, message=structs.replace(message, cause=self._causes.current))

    def _pass_on(
        self, source: Machine, effect: Effect, queue: deque[tuple[Machine, Event]], outside: list[Effect]
    ) -> None:
        if isinstance(effect, _QUESTIONS):
            self._token += 1
            self._asked[self._token] = _Asked(source, effect.token)
            queue.append((self.overlay, structs.replace(effect, token=self._token)))
        elif isinstance(effect, _ANSWERS):
            asked = self._asked.pop(effect.token)
            queue.append((asked.machine, structs.replace(effect, token=asked.token)))
        elif type(effect) in _INSIDE:
            assert isinstance(effect, Event)
            queue.extend((machine, effect) for machine in self._readers.get(type(effect), ()))
        else:
            outside.append(effect)
        if type(effect) in _SEEN_OUTSIDE:
            outside.append(effect)
