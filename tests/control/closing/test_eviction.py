"""A dead member is expected in every window that had begun at its death, however long the windows are."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from elfmesh.api.what_if import FOUND_DEAD_S
from elfmesh.control.closing.eviction import EVICT_S, Evictions
from elfmesh.control.closing.latency_stats import LatencyStats
from elfmesh.control.closing.straggler_policy import PROBES_MAX, StragglerPolicy
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.control.master.master import Master
from elfmesh.machine import Effect, Event
from elfmesh.overlay.events import Probe, ProbeDone
from tests.control.contexts import new_context
from tests.control.harness import World
from tests.control.member.support import SECOND, Agent
from tests.control.member.support import TEXT as SHORT

WIDTH_S = 600
FIRST_WINDOW = 10
START_S = FIRST_WINDOW * WIDTH_S

TUMBLE = """CREATE JOB shop.top DEADLINE '1 s' AS
SELECT product, COUNT(*) AS hits FROM clicks GROUP BY TUMBLE(ts, INTERVAL '600' SECOND), product"""

HOP = """CREATE JOB shop.top DEADLINE '1 s' AS
SELECT product, COUNT(*) AS hits FROM clicks
GROUP BY HOP(ts, INTERVAL '60' SECOND, INTERVAL '600' SECOND), product"""


class Probed(World):
    """A world in which it takes a second to find that an agent does not answer."""

    def __init__(self, agents: int) -> None:
        self.probing = self.probing_max = 0
        super().__init__(agents)

    def _carry_out(self, agent: Agent, effect: Effect) -> None:
        if isinstance(effect, Probe) and not self.agents[effect.contact.id].alive:
            self.probing += 1
            self.probing_max = max(self.probing_max, self.probing)
            self.post(1.0, agent, ProbeDone(effect.token, effect.contact, alive=False))
        else:
            super()._carry_out(agent, effect)

    def _step(self, agent: Agent, event: Event) -> None:
        self.probing -= isinstance(event, ProbeDone) and not event.alive
        super()._step(agent, event)


def leading(world: World) -> Master:
    return next(iter(world.master().control.leadership.masters.values()))


class Clock:
    """Agents whose logs and watermarks follow the time of the world."""

    def __init__(self, text: str = TUMBLE, agents: int = 5, *, begin_s: float = 0.0, late_s: int = 0) -> None:
        self.world = World(agents)
        self.world.apply(self.world[0], text)
        self.late_s = late_s
        self.offset_s = START_S - self.world.now
        self.log(begin_s)

    @property
    def seconds(self) -> float:
        """Since the first window began."""
        return self.world.now + self.offset_s - START_S

    def log(self, until_s: float) -> None:
        """Write a record each 10 s at every living agent, and seal what has passed, until a moment."""
        while self.seconds < until_s:
            at_us = int((START_S + self.seconds) * SECOND)
            for agent in self.world.living:
                agent.feed("clicks", [(at_us, f"of-{agent.number}")])
                agent.seal("clicks", at_us - self.late_s * SECOND)
            self.world.run(min(10.0, until_s - self.seconds))

    def victim(self) -> Agent:
        """A member that does not vote on the job."""
        voters = {contact.id for contact in self.master().term.terms.acceptors}
        return next(agent for agent in self.world.living if agent.me.id not in voters)

    def master(self) -> Master:
        return leading(self.world)

    def records(self) -> dict[int, ResultRecord]:
        return {record.index: record for record, _ in self.world.results(self.world.master())}


def without(records: dict[int, ResultRecord], name: str, indices: Sequence[int]) -> dict[int, bool]:
    """Which of these windows have a record that states that an agent is missing."""
    return {
        index: records[index].state == "FINAL_PARTIAL"
        and name in records[index].missing
        and records[index].completeness < 1.0
        for index in indices
    }


def test_a_window_longer_than_the_eviction_names_the_member_that_died_inside_it() -> None:
    clock = Clock(begin_s=100)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.log(WIDTH_S + 20)
    record = clock.records()[FIRST_WINDOW]
    assert (record.state, record.missing) == ("FINAL_PARTIAL", [f"agent-{dead.number}"])
    assert (record.agents_in, record.agents_expected) == (4, 5)


def test_every_hopping_window_that_had_begun_names_the_member_and_at_most_one_more_does() -> None:
    clock = Clock(HOP, begin_s=1000)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.log(2000)
    records, first = clock.records(), START_S // 60
    begun = [first + start // 60 for start in range(480, 1000, 60)]
    assert all(without(records, f"agent-{dead.number}", begun).values())
    later = [index for index in records if index > begun[-1] + 1]
    assert len(later) > 5
    assert {records[index].state for index in later} == {"FINAL"}
    assert {records[index].agents_expected for index in later} == {4}


def test_records_ahead_of_the_watermark_count_as_read() -> None:
    clock = Clock(HOP.replace("DEADLINE", "LATENESS '300 s' DEADLINE"), begin_s=1000, late_s=300)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.log(2500)
    records, first = clock.records(), START_S // 60
    begun = [first + start // 60 for start in range(480, 1000, 60)]
    assert all(without(records, f"agent-{dead.number}", begun).values())
    assert {records[index].state for index in records if index > begun[-1] + 1} == {"FINAL"}


def test_a_tumbling_window_after_the_eviction_is_final_again() -> None:
    clock = Clock(begin_s=WIDTH_S + 100)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.log(5 * WIDTH_S)
    records = clock.records()
    assert without(records, f"agent-{dead.number}", [FIRST_WINDOW, FIRST_WINDOW + 1]) == {10: False, 11: True}
    assert [records[FIRST_WINDOW + later].state for later in (3,)] == ["FINAL"]


def test_before_any_agent_has_sealed_the_first_window_that_closes_counts_as_begun() -> None:
    clock = Clock()
    dead = clock.victim()
    clock.world.kill(dead)
    clock.world.run(2 * EVICT_S)
    clock.log(WIDTH_S + 20)
    found = clock.records()
    assert without(found, f"agent-{dead.number}", [*found]) == dict.fromkeys(found, True)
    clock.log(2 * WIDTH_S + 20)
    assert clock.records()[FIRST_WINDOW + 1].missing == []


def test_a_member_that_returns_before_its_eviction_keeps_its_number_and_contributes() -> None:
    clock = Clock(begin_s=100)
    back = clock.victim()
    number = clock.master().term.book.of(back.me.id)
    clock.world.kill(back)
    clock.log(100 + EVICT_S + 50)
    clock.world.restart(back)
    clock.log(WIDTH_S + 20)
    entry = clock.master().term.book.of(back.me.id)
    assert number is not None
    assert entry is not None
    assert entry.number == number.number
    record = clock.records()[FIRST_WINDOW]
    assert (record.state, record.missing, record.agents_in) == ("FINAL", [], 5)
    assert record.counts["expired"] == 0


def test_a_new_master_expects_the_dead_member_in_the_windows_that_had_begun() -> None:
    clock = Clock(HOP, begin_s=1000)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.log(1030)
    clock.world.kill(clock.world.master())
    clock.log(1000 + 2 * EVICT_S + 600)
    records, first = clock.records(), START_S // 60
    begun = [first + start // 60 for start in range(480, 1000, 60)]
    assert all(without(records, f"agent-{dead.number}", begun).values())
    newest = records[max(records)]
    assert (newest.state, newest.agents_expected) == ("FINAL", 3)


def test_a_new_master_learns_of_a_death_before_an_interval_is_due() -> None:
    clock = Clock(begin_s=100)
    dead = clock.victim()
    clock.world.kill(dead)
    clock.world.kill(clock.world.master())
    clock.log(130)
    assert clock.master().term.collection.straggler_policy.dead
    clock.log(2 * WIDTH_S + 20)
    records = clock.records()
    assert without(records, f"agent-{dead.number}", [FIRST_WINDOW]) == {FIRST_WINDOW: True}
    assert records[FIRST_WINDOW + 1].state == "FINAL"


def test_a_new_master_counts_what_agents_contribute_again_although_it_learns_of_a_death_before() -> None:
    context, stages = new_context(1), leading(Clock().world).term.terms.stages
    book = RosterBook((RosterEntry(0, new_context(2).me, "agent-2"),))
    straggler_policy = StragglerPolicy(context, book, "correct", 1.0, lambda: None)
    evictions = Evictions(context, book, straggler_policy, LatencyStats(context), stages)
    straggler_policy.lost_sight(new_context(2).me.id)
    (probe,) = [effect for effect in context.out if isinstance(effect, Probe)]
    context.answer(probe.token, ProbeDone(probe.token, probe.contact, alive=False))
    assert straggler_policy.dead == (0,)
    assert not evictions.carry_out(None, 10)
    assert not evictions.carry_out(15, 10)
    context.now += EVICT_S
    assert not evictions.carry_out(15, 15), "window 15 had begun"
    assert evictions.carry_out(16, 16)
    assert book.active == []


def test_what_a_member_had_sent_before_it_died_does_not_revive_it() -> None:
    clock = Clock(begin_s=100)
    dead = clock.victim()
    entry = clock.master().term.book.of(dead.me.id)
    assert entry is not None
    clock.world.kill(dead)
    clock.world.run(5.0)
    straggler_policy = clock.master().term.collection.straggler_policy
    straggler_policy.seen(1 << entry.number)
    assert entry.number not in straggler_policy.dead
    clock.world.run(5.0)
    assert straggler_policy.dead == (entry.number,)


def test_a_dead_rack_is_probed_at_once_and_never_by_more_than_the_limit() -> None:
    world = Probed(90)
    world.apply(world[0], SHORT)
    voters = {contact.id for contact in leading(world).term.terms.acceptors}
    rack = [agent for agent in world.living if agent.me.id not in voters][:70]
    for agent in world.living:
        agent.feed("clicks", [(1000 * 10 * SECOND, "one")])
    for agent in rack:
        world.kill(agent)
    world.run(ceil(len(rack) / PROBES_MAX) * FOUND_DEAD_S)
    assert world.probing_max == PROBES_MAX
    assert len(leading(world).term.collection.straggler_policy.dead) == len(rack)
    world.seal_all(1001 * 10 * SECOND)
    world.run(1.5)
    ((record, _),) = world.results(world.master())
    assert (record.state, record.agents_in, len(record.missing)) == ("FINAL_PARTIAL", 20, 70)
