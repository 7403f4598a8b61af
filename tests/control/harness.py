"""N control machines in one process over a perfect overlay and a perfect forest.

Every segment goes straight from its agent to the root of its tree; a root is the closest living agent to the
tree's id as soon as any agent is subscribed. Messages take a millisecond and arrive once unless a test says
otherwise. Workers count records by key; partials are JSON, to be compared with a Counter.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from elfmesh import ids
from elfmesh.agent.runtime.compute_threads import made_in_turn
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol import events as ctl
from elfmesh.machine import Effect, Event, Message, Received, Send, Tick
from elfmesh.overlay import events as ov
from elfmesh.srt import events as srt
from elfmesh.srt.messages import Segment
from tests.control.member.support import (
    TEXT,
    Agent,
    Worker,
    agent_id,
    derive,
    finalise,
    read_log,
    recompute,
    rows_of,
)
from tests.control.paging import paged, shown

HOP_S = 0.001
DETECT_S = 0.5
"""How long the perfect overlay takes to notice a death."""


@dataclass(slots=True)
class Published:
    tree: bytes
    token: int
    waiting: set[bytes]
    answers: list[tuple[bytes, bytes]] = field(default_factory=list)
    expected: int = 0


class World:
    """Virtual time, a perfect network, and agents on it."""

    _later_elect = float("inf")
    page_bytes = 0  # rows beyond this become pages of about this size; 0: none do

    def __init__(self, agents: int = 0, streams: tuple[str, ...] = ("clicks",)) -> None:
        self.now = 0.0
        self.agents: dict[bytes, Agent] = {}
        self.lost: Callable[[Agent, Agent, Message], bool] = lambda source, target, message: False
        self.subscribed: dict[bytes, dict[bytes, None]] = {}
        self.roots: dict[bytes, bytes] = {}
        self.trace: list[tuple[float, str, str]] = []
        self.sent: Counter[str] = Counter()
        self.barrier = self.poison = False
        self.poisoned = ""
        self._held: list[tuple[bytes, Segment, tuple[bytes, ...]]] = []
        self._queue: list[tuple[float, int, Agent, Event, int]] = []
        self._order = itertools.count()
        self._published: dict[tuple[bytes, int], Published] = {}
        self._tokens = itertools.count(1)
        self._seq = itertools.count(1)
        for number in range(agents):
            self.add(number, streams=dict.fromkeys(streams))
        self.run(2.0)

    # -- agents ----------------------------------------------------------------------------------------

    def add(self, number: int, *, streams: dict[str, pa.Schema | None] | None = None, **of: Any) -> Agent:
        carried = {"clicks": None} if streams is None else streams
        agent = Agent(self.post, number, carried, of.get("labels") or {})
        agent.poisoned = lambda: self.poisoned
        self.agents[agent.me.id] = agent
        self._start(agent)
        return agent

    def _start(self, agent: Agent) -> None:
        for other in self.living:
            self.post(HOP_S, other, ov.PeerUp(agent.me))
        self.post(0.0, agent, agent.restored())
        infos = tuple(ctl.StreamInfo.of(name, "json", schema) for name, schema in agent.streams.items())
        self.post(0.0, agent, ctl.LocalStreams(infos, tuple(sorted(agent.labels.items()))))
        self.post(HOP_S, agent, ov.Joined())
        self.run(HOP_S)
        self._elect()

    def kill(self, agent: Agent) -> None:
        agent.alive = False
        for members in self.subscribed.values():
            members.pop(agent.me.id, None)
        for other in self.living:
            self.post(DETECT_S, other, ov.PeerDown(agent.me.id))
        self._later_elect = self.now + DETECT_S

    def restart(self, agent: Agent) -> None:
        self.roots = {tree: root for tree, root in self.roots.items() if root != agent.me.id}
        agent.boot()
        self._start(agent)

    @property
    def living(self) -> list[Agent]:
        return [agent for agent in self.agents.values() if agent.alive]

    def closest(self, key: bytes) -> list[Agent]:
        return sorted(self.living, key=lambda agent: ids.distance(agent.me.id, key))

    def master(self, job: str = "shop/top") -> Agent:
        found = [agent for agent in self.living if job in agent.masters]
        assert len(found) == 1, f"masters of {job}: {found}"
        return found[0]

    def __getitem__(self, number: int) -> Agent:
        return self.agents[agent_id(number)]

    # -- time ------------------------------------------------------------------------------------------

    def post(self, delay: float, agent: Agent, event: Event) -> None:
        heapq.heappush(self._queue, (self.now + delay, next(self._order), agent, event, agent.incarnation))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            due = self._queue[0][0] if self._queue else float("inf")
            ticks = [(agent.control.deadline, agent) for agent in self.living]
            timed = min(
                ((at, agent) for at, agent in ticks if at is not None),
                key=lambda each: each[0],
                default=(float("inf"), None),
            )
            if (moment := min(due, timed[0], self._later_elect)) > end:
                self.now = end
                return
            self.now = max(moment, self.now)
            if moment == self._later_elect:
                self._later_elect = float("inf")
                self._elect()
            elif due <= timed[0]:
                _, _, agent, event, incarnation = heapq.heappop(self._queue)
                if agent.alive and agent.incarnation == incarnation:
                    self._step(agent, event)
            else:
                assert timed[1] is not None
                self._step(timed[1], Tick())

    def _step(self, agent: Agent, event: Event) -> None:
        if isinstance(event, _Over):
            self.publish_over(event.tree, event.seq)
            return
        self.trace.append((self.now, f"agent-{agent.number}", type(event).__name__))
        for effect in self._give(agent, event):
            self._carry_out(agent, effect)

    def _give(self, agent: Agent, event: Event) -> list[Effect]:
        return agent.control.step(event, self.now)

    # -- overlay ---------------------------------------------------------------------------------------

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        match effect:
            case Send():
                target = self.agents.get(effect.to.id)
                self.sent[type(effect.message).__name__] += 1
                if target is None or not target.alive or self.lost(agent, target, effect.message):
                    return
                self.post(HOP_S, target, Received(agent.me, effect.message, effect.payload))
            case ov.Route():
                target = self.closest(effect.key)[0]
                self.post(HOP_S, target, ov.RouteDelivered(effect.key, effect.body, effect.payload, agent.me))
            case ov.Lookup():
                contacts = tuple(each.me for each in self.closest(effect.key)[:8])
                self.post(HOP_S, agent, ov.LookupDone(effect.token, effect.key, contacts))
            case ov.Probe():
                target = self.agents.get(effect.contact.id)
                alive = target is not None and target.alive
                self.post(HOP_S, agent, ov.ProbeDone(effect.token, effect.contact, alive))
            case _:
                self._tree_effect(agent, effect)

    # -- forest ----------------------------------------------------------------------------------------

    def _elect(self) -> None:
        """Tell every root that it is one, and who was one that it is none."""
        for tree, members in self.subscribed.items():
            root = self.closest(tree)[0].me.id if members else None
            old = self.roots.get(tree)
            if root == old and (root is None or self.agents[root].alive):
                continue
            if old is not None and self.agents[old].alive:
                self.post(0.0, self.agents[old], srt.LostRoot(tree))
            if root is None:
                self.roots.pop(tree, None)
                continue
            self.roots[tree] = root
            self.post(HOP_S, self.agents[root], srt.BecameRoot(tree))
            for agent in self.living:
                for segment, payloads in agent.contributed.get(tree, []):
                    self._collect(tree, segment, payloads)

    def _collect(self, tree: bytes, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        if self.barrier and segment.start < segment.stop:
            self._held.append((tree, segment, payloads))
            self._through_the_barrier()
        else:
            self._arrive(tree, segment, payloads)

    def _through_the_barrier(self, hastened: int | None = None) -> None:
        """Let pass what all contributing members have sealed, or what may not wait any longer."""
        held, self._held = self._held, []
        for tree, segment, payloads in held:
            frontiers = [
                max(each.stop for each, _ in agent.contributed[tree])
                for agent in self.living
                if agent.contributed.get(tree)
            ]
            if segment.stop <= min(frontiers) or (hastened is not None and segment.stop <= hastened):
                self._arrive(tree, segment, payloads)
            else:
                self._held.append((tree, segment, payloads))

    def _arrive(self, tree: bytes, segment: Segment, payloads: tuple[bytes, ...]) -> None:
        root = self.roots.get(tree)
        if root is not None and segment.start < segment.stop:
            self.post(2 * HOP_S, self.agents[root], srt.Collected(tree, segment, payloads))

    def _tree_effect(self, agent: Agent, effect: Effect) -> None:
        match effect:
            case srt.Subscribe():
                self.subscribed.setdefault(effect.tree, {})[agent.me.id] = None
                self._elect()
            case srt.Unsubscribe():
                self.subscribed.get(effect.tree, {}).pop(agent.me.id, None)
                agent.contributed.pop(effect.tree, None)
                self._elect()
            case srt.Contribute():
                kept = agent.contributed.setdefault(effect.tree, [])
                kept[:] = [each for each in kept if each[0].epoch >= effect.segment.epoch]
                kept.append((effect.segment, effect.payloads))
                self._collect(effect.tree, effect.segment, effect.payloads)
            case srt.Release():
                kept = agent.contributed.get(effect.tree, [])
                kept[:] = [each for each in kept if each[0].stop > effect.stop]
            case srt.Recollect():
                assert self.roots[effect.tree] == agent.me.id, "only the root may recollect"
                for other in self.living:
                    for segment, payloads in list(other.contributed.get(effect.tree, [])):
                        again = replace_segment(segment, attempt=effect.attempt, epoch=effect.epoch)
                        self._collect(effect.tree, again, payloads)
            case srt.Hasten():
                assert self.roots[effect.tree] == agent.me.id, "only the root may hasten"
                self._through_the_barrier(effect.stop)
            case srt.Publish():
                self._publish(agent, effect)
            case srt.MulticastAnswer():
                self._answer(agent, effect)
            case _:
                self._host_effect(agent, effect)

    def _publish(self, agent: Agent, effect: srt.Publish) -> None:
        assert self.roots[effect.tree] == agent.me.id, "only the root may publish"
        seq = next(self._seq)
        members = [self.agents[member] for member in self.subscribed.get(effect.tree, {})]
        self._published[effect.tree, seq] = Published(
            effect.tree, effect.token, {each.me.id for each in members}, expected=len(members)
        )
        for member in members:
            self.post(HOP_S, member, srt.Delivered(effect.tree, seq, effect.body))
        self.post(effect.timeout_s, agent, _Over(effect.tree, seq))

    def _answer(self, agent: Agent, effect: srt.MulticastAnswer) -> None:
        open_ = self._published.get((effect.tree, effect.seq))
        if open_ is None:
            return
        open_.waiting.discard(agent.me.id)
        open_.answers.append((agent.me.id, effect.body))
        if not open_.waiting:
            self.publish_over(effect.tree, effect.seq)

    def publish_over(self, tree: bytes, seq: int) -> None:
        done = self._published.pop((tree, seq), None)
        if done is not None and tree in self.roots:
            event = srt.PublishDone(tree, seq, tuple(done.answers), done.expected, done.token)
            self.post(HOP_S, self.agents[self.roots[tree]], event)

    # -- host ------------------------------------------------------------------------------------------

    def _host_effect(self, agent: Agent, effect: Effect) -> None:
        match effect:
            case ctl.StartWorker():
                before = agent.workers.get(effect.manifest.job_id)
                worker = agent.workers[effect.manifest.job_id] = Worker(agent, effect)
                worker.paused = before is not None and before.paused
                worker.advance()
            case ctl.StopWorker():
                worker_ = agent.workers.get(effect.job)
                if worker_ is not None and worker_.manifest.incarnation == effect.incarnation:
                    del agent.workers[effect.job]
            case ctl.PauseWorker():
                agent.workers[effect.job].paused = True
            case ctl.ResumeWorker():
                agent.workers[effect.job].paused = False
                agent.workers[effect.job].advance()
            case ctl.ReleaseWorker():
                agent.released.append(effect.stop)
            case ctl.Left():
                agent.left += 1
            case ctl.Finalise():
                self.post(HOP_S, agent, made_in_turn(effect, self._made))
            case ctl.MergeEarly():
                self.post(HOP_S, agent, agent.root.merged_early(effect))
            case ctl.Recompute():
                self.post(HOP_S, agent, recompute(agent, effect))
            case ctl.Append():
                agent.append(effect)
            case ctl.MendLog() | ctl.KeepPage():
                agent.mend(effect) if isinstance(effect, ctl.MendLog) else agent.keep_page(effect)
            case ctl.DropLog():
                agent.drop_log(effect)
            case ctl.DeadLetter():
                agent.dead_letters.append(effect)
            case ctl.ReadLog():
                self.post(0.0, agent, read_log(agent, effect))
            case ctl.Persist():
                agent.disk[effect.kind, effect.key] = effect.data
                if not effect.data:
                    del agent.disk[effect.kind, effect.key]
            case ctl.Reply():
                assert effect.token not in agent.replies, "a request is answered once"
                agent.replies[effect.token] = effect
            case ctl.CutPanes() | ctl.EarlyMembers() | ctl.EndLog() | ov.Remember():
                pass  # the workers have no open panes, and all agents find each other here
            case _:
                raise AssertionError(f"no host carries out {effect}")

    def _made(self, effect: ctl.Finalise) -> ctl.Finalised:
        if self.poison and effect.parts:
            return ctl.Finalised(effect.job, effect.epoch, effect.interval, error="poisoned")
        return paged((finalise if effect.parts or not effect.inputs else derive)(effect), self.page_bytes)

    # -- clients ---------------------------------------------------------------------------------------

    def request(self, agent: Agent, verb: str, body: dict[str, Any] | None = None) -> int:
        token = next(self._tokens)
        self.post(0.0, agent, ctl.ClientRequest(token, verb, body or {}))
        return token

    def ask(
        self, agent: Agent, verb: str, body: dict[str, Any] | None = None, *, within: float = 60.0
    ) -> ctl.Reply:
        token = self.request(agent, verb, body)
        end = self.now + within
        while token not in agent.replies:
            assert self.now < end, f"no answer to {verb}"
            self.run(0.05)
        return agent.replies[token]

    def apply(self, agent: Agent, text: str = TEXT, **body: Any) -> ctl.Reply:
        return self.ask(agent, "apply", {"text": text, **body})

    def results(self, agent: Agent, job: str = "shop/top", /, **body: Any) -> list[tuple[ResultRecord, Any]]:
        reply = self.ask(agent, "results", {"job": job, "limit": 1000, **body})
        assert reply.status == 200, reply.body
        return shown(self.ask, agent, job, reply.payload)

    def seal_all(self, watermark_us: int, stream: str = "clicks") -> None:
        for agent in self.living:
            if stream in agent.streams:
                agent.seal(stream, watermark_us)

    def expected(self, slide_us: int, stream: str = "clicks") -> dict[int, list[dict[str, Any]]]:
        """What one process would compute from all logs."""
        counts: dict[int, Counter[str]] = {}
        for agent in self.agents.values():
            for at, key in agent.logs.get(stream, []):
                counts.setdefault(at // slide_us, Counter())[key] += 1
        return {index: rows_of(counter) for index, counter in sorted(counts.items())}


@dataclass(frozen=True, slots=True)
class _Over(Event):
    """The time-out of a multicast; handled by the harness, never by a machine."""

    tree: bytes
    seq: int


def replace_segment(segment: Segment, *, attempt: int, epoch: int) -> Segment:
    return Segment(epoch, attempt, segment.start, segment.stop, segment.coverage, segment.entries)
