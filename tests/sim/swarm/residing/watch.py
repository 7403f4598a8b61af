"""What agents send of the data of hosts that keep it in their rack, and to which agents (D-23).

Owns the watch and the invariant. The watch knows whose data a message contains from the contributions that
hosts make, and the rack of an agent from its host; it reads no rule that travels with data.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol
from unittest import mock

from elfmesh.agent.runtime.assembly import LocalAgent
from elfmesh.control.jobs.policy import OPEN, Policy
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.protocol.events import Sealed
from elfmesh.control.protocol.messages_early import Early
from elfmesh.control.protocol.messages_parts import Part, SitePart
from elfmesh.control.protocol.messages_safety import Keep, KeptCopy, Verified
from elfmesh.control.protocol.messages_standby import Delta, Prefix
from elfmesh.ingest.authority.gate import AuthorityGate, open_gate
from elfmesh.interval_map import numbers
from elfmesh.machine import Effect, Message, Send
from elfmesh.srt.coverage import bits_of
from elfmesh.srt.events import Contribute
from elfmesh.srt.messages import Segment, SegmentUp
from elfmesh.storage.storage import Storage

if TYPE_CHECKING:
    from tests.sim.swarm.drawing.job import Job
    from tests.sim.swarm.host import Clock, Host
    from tests.sim.swarm.judging.history import Incarnation
    from tests.sim.swarm.judging.oracle import Truth
    from tests.sim.swarm.judging.outcome import Outcome


def policy_of(rack: str) -> Policy:
    return replace(OPEN, keep_in=((f"rack={rack}",),))


class Place(Protocol):
    """The part of a host that matters here."""

    rack: str

    @property
    def name(self) -> str: ...

    @property
    def clock(self) -> Clock: ...


@dataclass
class Residence:
    """The watch of one run.

    Attributes:
        watches: whether the run may have hosts that keep their data.
        kept: racks of the hosts that keep their data, by id of their agents.
        racks: of all hosts, by name.
        keeping: names of the hosts that keep their data.
        sent: messages with data of such hosts.
        elsewhere: those of them that went to an agent of another rack.
    """

    watches: bool = False
    kept: dict[bytes, str] = field(default_factory=dict)
    racks: dict[str, str] = field(default_factory=dict)
    keeping: set[str] = field(default_factory=set)
    sent: int = 0
    elsewhere: list[str] = field(default_factory=list)
    _racks: dict[bytes, str] = field(default_factory=dict)
    _owners: dict[tuple[bytes, int, int], bytes] = field(default_factory=dict)
    _jobs: dict[bytes, bytes] = field(default_factory=dict)
    """By tree: the job that contributions in it belong to."""

    def gate(self, host: Place, keeping: str, storage: Storage, agent: bytes) -> AuthorityGate:
        """Return the gate of an agent that begins; its host keeps its data if it is in the rack `keeping`."""
        self.watches = bool(keeping)
        self._racks[agent] = self.racks[host.name] = host.rack
        if host.rack != keeping:
            return open_gate(storage, host.clock.us)
        self.kept[agent] = host.rack
        self.keeping.add(host.name)
        return open_gate(storage, host.clock.us, policy_of(host.rack))

    def tap(self, local: LocalAgent) -> None:
        """Watch what an agent sends, in runs with hosts that keep their data."""
        if not self.watches:
            return
        me = local.control.context.me.id
        step = local.core.step

        def watched(event: object, now: float) -> list[Effect]:
            effects = step(event, now)  # type: ignore[arg-type]  # passed on as it is
            for effect in effects:
                if type(effect) is Send:
                    self._sent(me, effect)
            return effects

        local.core.step = watched  # type: ignore[method-assign]  # listens in

    def _sent(self, sender: bytes, effect: Send) -> None:
        for owner in {*self._owners_of(effect.message, sender)} & self.kept.keys():
            self.sent += 1
            rack = self._racks.get(effect.to.id, "")
            if rack != self.kept[owner]:
                kind = type(effect.message).__name__
                self.elsewhere.append(f"{kind} with data of a host in {self.kept[owner]} went to {rack}")

    def _owners_of(self, message: Message, sender: bytes) -> Iterable[bytes]:
        match message:
            case SegmentUp():
                return self._of_segment(self._jobs.get(message.tree, b""), message.segment)
            case Part() | SitePart():
                return self._of_segment(message.job, message.segment)
            case Keep() | Delta():
                return [message.member]
            case KeptCopy():
                return [message.copy.member]
            case Prefix():
                return [delta.member for delta in message.deltas]
            case Early() | Verified():
                return [sender]
        return ()

    def _of_segment(self, job: bytes, segment: Segment) -> list[bytes]:
        keys = ((job, segment.epoch, number) for number in numbers(bits_of(segment.coverage)))
        return [self._owners[key] for key in keys if key in self._owners]

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Note which host contributes under which number, and in which trees."""
        send = Contributions._send_range

        def contributed(contributions: Contributions, event: Sealed, start: int, stop: int) -> None:
            context = contributions._context
            self._owners[event.job, contributions._epoch, contributions._number] = context.me.id
            before = len(context.out)
            send(contributions, event, start, stop)
            self._jobs |= {each.tree: event.job for each in context.out[before:] if type(each) is Contribute}

        with mock.patch.object(Contributions, "_send_range", contributed):
            yield


def may_take_no_part(out: Outcome, truth: Truth, host: str, epoch: int) -> bool:
    """Whether a host keeps its data, and a master up to an epoch, or a root of a partition, was elsewhere."""
    residence, job = out.history.residence, truth.job
    if host not in residence.keeping:
        return False
    led = [
        name
        for (job_id, each), names in out.history.leaders.items()
        if out.history.names.get(job_id) == truth.key[0] and each <= epoch
        for name in names
    ]
    elsewhere = any(residence.racks[name] != residence.racks[host] for name in led)
    return elsewhere or (job.partitions > 1 and not job.paths)


def resting(hosts: Iterable[Host], residence: Residence, job: Incarnation, closed: int) -> set[str]:
    """Return the hosts with a rule that count nothing in a job now: none of their intervals is closed."""
    found = set()
    for host in hosts:
        members = () if host.local is None else host.local.control.member_host.members.values()
        entries = [
            member.entry
            for member in members
            if (member.manifest.qualified, member.manifest.incarnation) == job and member.is_expected
        ]
        if host.name in residence.keeping and not any(each and each.start < closed for each in entries):
            found.add(host.name)
    return found


def returning(hosts: Iterable[Host], residence: Residence, job: Job, names: set[str]) -> set[str]:
    """Return those of these hosts that the newest master of a job admits, so that they have to come back."""
    rack = newest_rack(hosts, f"sim/{job.name}")
    placed = job.partitions == 1 or bool(job.paths)
    return {name for name in names if placed and residence.racks[name] == rack}


def newest_rack(hosts: Iterable[Host], job: str) -> str:
    """Return the rack of the newest master of a job, "" if no agent leads it."""
    led = [
        (master.term.epoch, host.rack)
        for host in hosts
        if host.local is not None
        for master in host.local.control.leadership.masters.values()
        if master.term.manifest.qualified == job
    ]
    return max(led, default=(0, ""))[1]


def d23_data_stays(out: Outcome) -> Iterator[str]:
    """No message with data of a host goes to an agent that the host's rule excludes."""
    yield from dict.fromkeys(out.history.residence.elsewhere)
