"""The barrier against a model: whatever comes in any order, the parent counts each child exactly once."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from elfmesh.contribution import Contribution
from elfmesh.srt.gates import Gate
from elfmesh.srt.messages import FIRST
from elfmesh.srt.parts import Part
from tests.srt.rig import Rig, agents_in

CHILDREN = (1, 2, 3)
INTERVALS = 12
SLOTS = 4  # agents below each child that come as supplements, one by one


def records(agents: set[int], interval: int) -> bytes:
    """What these agents have for the interval; every third has nothing."""
    texts = [f"{agent}@{interval};" for agent in agents if (agent + interval) % 3]
    return "".join(sorted(texts)).encode()


def whole(start: int, stop: int, coverage: int, source: int) -> Part:
    low = max(0, start)
    agents = agents_in(coverage)
    items = tuple(
        Contribution(n, (len(records(agents, n)),), records(agents, n))
        for n in range(low, stop)
        if records(agents, n)
    )
    return Part(start, stop, coverage, items, 0, bytes([source]))


class BarrierModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.rig = Rig(payload_bytes_max=10**6)
        self.rig.hold = True
        self.rng = random.Random(0)
        self.seen = 0
        self.counted: dict[tuple[int, int], int] = defaultdict(int)
        self.position = dict.fromkeys((0, *CHILDREN), FIRST)
        self.spare = {child: list(range(child * 8 + 1, child * 8 + 1 + SLOTS)) for child in CHILDREN}
        self.history: list[Part] = []
        self.late: list[tuple[Part, bool]] = []
        self.present: set[int] = set()
        self.parent_gate = Gate()
        self.attempt = [0] * INTERVALS
        for child in CHILDREN:
            self.join(child)

    # -- what happens

    @rule(child=st.sampled_from(CHILDREN))
    def join(self, child: int) -> None:
        if child not in self.present:
            self.present.add(child)
            self.rig.barrier.child_joined(bytes([child]), 0, self.position[child])

    @rule(child=st.sampled_from(CHILDREN))
    def leave(self, child: int) -> None:
        self.present.discard(child)
        self.rig.barrier.child_left(bytes([child]))

    @rule(length=st.integers(1, 3))
    def contribute(self, length: int) -> None:
        start = self.position[0]
        stop = min(INTERVALS, max(start, 0) + length)
        self.rig.barrier.contribute(replace(whole(start, stop, 1, 0), source=b""), 0)
        self.position[0] = stop

    @rule(child=st.sampled_from(CHILDREN), length=st.integers(1, 3), hold=st.booleans())
    def claim(self, child: int, length: int, hold: bool) -> None:
        start = self.position[child]
        stop = min(INTERVALS, max(start, 0) + length)
        if start < stop:
            self.position[child] = stop
            self.send(whole(start, stop, 1 << child * 8, child), claims=True, hold=hold)

    @rule(child=st.sampled_from(CHILDREN), start=st.integers(0, INTERVALS - 1), hold=st.booleans())
    def supplement(self, child: int, start: int, hold: bool) -> None:
        if self.spare[child]:
            agent = self.spare[child].pop()
            self.send(whole(start, INTERVALS, 1 << agent, child), claims=False, hold=hold)

    def send(self, part: Part, *, claims: bool, hold: bool) -> None:
        if hold:
            self.late.append((part, claims))
        else:
            self.history.append(part)
            self.receive(part, claims=claims)

    def receive(self, part: Part, *, claims: bool = False) -> None:
        """The sender obeys a refusal: it sends the range again, alone, as the attempt it is told."""
        refused = self.rig.barrier.receive(part, 0, claims=claims)
        assert refused is not None
        for each in refused:
            again = replace(part, attempt=each.attempt, alone=True).cut(each.start, each.stop)
            assert self.rig.barrier.receive(again, 0, claims=False) == ()

    @precondition(lambda self: self.late)
    @rule()
    def arrive_late(self) -> None:
        part, claims = self.late.pop(self.rng.randrange(len(self.late)))
        self.send(part, claims=claims, hold=False)

    @precondition(lambda self: self.history)
    @rule(source=st.sampled_from(CHILDREN), alone=st.booleans())
    def arrive_again(self, source: int, alone: bool) -> None:
        part = replace(self.rng.choice(self.history), source=bytes([source]), alone=alone)
        self.receive(part)

    @precondition(lambda self: self.rig.asked)
    @rule()
    def merge(self) -> None:
        self.rig.asked.rotate(self.rng.randrange(len(self.rig.asked)))
        token, parts = self.rig.asked.popleft()
        texts = sorted(text for each in parts for text in each.decode().split(";") if text)
        self.rig.barrier.merged(token, "".join(text + ";" for text in texts).encode(), "")

    @rule()
    def change_parent(self) -> None:
        self.rig.barrier.closed()
        notified = self.rig.barrier.standing
        self.parent_gate = Gate(notified)
        self.rig.barrier.opened(notified)

    @rule(start=st.integers(0, INTERVALS - 1))
    def collect_again(self, start: int) -> None:
        attempt = max(self.attempt[start:]) + 1
        self.rig.barrier.recollect(0, start, INTERVALS, attempt, ordered=True)
        self.attempt[start:] = [attempt] * (INTERVALS - start)
        for part in list(self.history):  # all below obey: own contributions, alone
            again = replace(part, attempt=attempt, alone=True).cut(start, INTERVALS)
            if again.start < again.stop:
                self.receive(again)

    # -- what must be true

    @invariant()
    def parent_counts_each_agent_once(self) -> None:
        """The parent's own rule: contained = known already, disjoint = new, anything else is a fault."""
        for part, claims in self.rig.above.parts[self.seen :]:
            agents = agents_in(part.coverage)
            for interval in range(max(0, part.start), part.stop):
                known = self.counted[interval, part.attempt]
                overlap = known & part.coverage
                assert overlap in (0, part.coverage), (interval, known, part)
                self.counted[interval, part.attempt] = known | part.coverage
            for item in part.items:
                assert item.payload == records(agents, item.interval)
                assert item.counts == (sum(len(records({a}, item.interval)) for a in agents),)
            if claims:
                self.parent_gate.claim(part.start, part.stop)
        self.seen = len(self.rig.above.parts)

    @invariant()
    def pending_lies_at_or_above_the_front(self) -> None:
        barrier = self.rig.barrier
        assert all(part.attempt == 0 and not part.alone for part in barrier._held.pending)
        if barrier.front is not None:
            assert all(part.start >= barrier.front for part in barrier._held.pending)

    def teardown(self) -> None:
        while self.late:
            self.arrive_late()
        for child in CHILDREN:
            self.leave(child)
        self.rig.barrier.retire()
        while self.rig.asked:
            self.merge()
        self.parent_counts_each_agent_once()
        for interval in range(INTERVALS):
            (cell,) = self.rig.barrier._cells.pieces(interval, interval + 1)
            assert self.counted[interval, cell.attempt] == cell.known
            expected = int(self.position[0] > interval)
            for part in self.history:
                if part.start <= interval < part.stop:
                    expected |= part.coverage
            assert cell.known == expected, "each child that sent is counted in the last attempt"


TestBarrierModel = BarrierModel.TestCase
TestBarrierModel.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
