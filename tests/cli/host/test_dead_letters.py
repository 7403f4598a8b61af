"""What becomes of contributions whose intervals were closed without them (D-1, D-15)."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from elfmesh import ids
from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import BUCKETS
from elfmesh.control.protocol.events import Sealed
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.member.support import Agent
from tests.control.partition import SplitWorld

JOB = ids.job_id("shop/top", "local")
NOTHING = (0,) * len(BUCKETS)


def running(agents: int, intervals: int) -> SplitWorld:
    """A job whose first two intervals are published."""
    world = SplitWorld(agents)
    fill(world, intervals=intervals)
    world.apply(world[0])
    seal(world, 2)
    world.run(2.0)
    assert list(world.terminal(JOB)) == [1000, 1001]
    return world


def seal(world: SplitWorld, intervals: int) -> None:
    for agent in list(world.agents.values()):
        if agent.alive:
            agent.seal("clicks", BASE + intervals * SLIDE)


def simple_member(world: SplitWorld) -> Agent:
    """An agent that neither leads nor votes."""
    master = world.master().control.leadership.masters[JOB]
    voting = {contact.id for contact in master.term.committer.cell.value.acceptors}
    return next(agent for agent in world.living if agent.me.id not in voting)


def letters(agent: Agent) -> dict[int, int]:
    """Records by interval in an agent's dead letters; each interval once."""
    found = {letter.interval: letter.counts[0] for letter in agent.dead_letters}
    assert len(found) == len(agent.dead_letters), "an interval is settled once"
    for letter in agent.dead_letters:
        held: Counter[str] = Counter()
        for payload in letter.payloads:
            held.update(json.loads(payload) if payload else {})
        assert sum(held.values()) == letter.counts[0]
    return found


def total(world: SplitWorld) -> int:
    """Records in all logs."""
    return sum(len(agent.logs.get("clicks", [])) for agent in world.agents.values())


def counted(world: SplitWorld) -> int:
    """Records that stand in some bucket of some terminal record (D-1)."""
    return sum(sum(record.counts.values()) for record in world.terminal(JOB).values())


def records_of(agent: Agent, index: int) -> int:
    return sum(at // SLIDE == index for at, _ in agent.logs["clicks"])


def test_a_side_that_was_cut_off_writes_dead_letters_and_counts_them_once() -> None:
    world = running(6, 8)
    cut = simple_member(world)
    world.split([cut])
    seal(world, 5)
    world.run(20.0)
    records = world.terminal(JOB)
    assert [records[index].missing for index in (1002, 1003, 1004)] == [[f"agent-{cut.number}"]] * 3
    assert cut.dead_letters == [], "as long as it does not know"
    world.heal()
    world.run(35.0)
    assert letters(cut) == {index: records_of(cut, index) for index in (1002, 1003, 1004)}
    seal(world, 8)
    world.run(20.0)
    records = world.terminal(JOB)
    assert list(records) == list(range(1000, 1008))
    assert records[1005].counts["expired"] == sum(letters(cut).values())
    assert counted(world) == total(world)
    assert all(not agent.dead_letters for agent in world.agents.values() if agent is not cut)


def test_a_contribution_inside_is_no_dead_letter_though_the_watermark_was_missed() -> None:
    world = running(5, 6)
    member = simple_member(world)
    world.lost = lambda source, target, message: target is member
    seal(world, 4)
    world.run(0.2)
    world.pause(member)
    world.run(1.0)
    world.wake(member, deaf=True)
    world.lost = lambda source, target, message: False
    world.run(60.0)
    seal(world, 6)
    world.run(10.0)
    exact(world, world.living[0])
    assert member.dead_letters == []
    assert member.control.member_host.members[JOB].ledger.undecided == 0


@pytest.mark.parametrize("seed", range(10))
def test_every_record_is_counted_once_whatever_was_cut_off_when(seed: int) -> None:
    rng = random.Random(seed)
    world = running(6, 14)
    member = simple_member(world)
    for step in range(3, 13):
        seal(world, step)
        world.run(rng.choice([0.0, 0.001, 0.003, 0.3, 3.0]))
        if step % 4 == 0:
            world.split([member])
            world.run(rng.choice([0.5, 4.0, 12.0]))
            seal(world, step + 1)
            world.run(rng.choice([0.0, 0.002, 2.0, 12.0]))
            world.heal()
            world.run(rng.choice([0.0, 1.0, 8.0, 40.0]))
    world.run(60.0)
    seal(world, 14)
    world.run(30.0)
    records = world.terminal(JOB)
    assert list(records) == list(range(1000, 1014))
    assert counted(world) == total(world)
    lacking = [i for i, record in records.items() if f"agent-{member.number}" in record.missing]
    assert sorted(letters(member)) == lacking


@pytest.mark.parametrize("step", [1, 4])
def test_what_an_earlier_master_closed_while_a_member_was_stopped_is_counted(step: int) -> None:
    """When the member goes on, its worker seals what both masters have closed, at once or one by one."""
    world = running(5, 12)
    member = simple_member(world)
    world.pause(member)
    for intervals in (4, 5):
        for agent in world.living:
            agent.seal("clicks", BASE + intervals * SLIDE)
        world.run(20.0)
    dead = world.master()
    world.kill(dead)
    world.run(10.0)
    for agent in world.living:
        agent.seal("clicks", BASE + 7 * SLIDE)
    world.run(20.0)
    world.wake(member)
    world.run(5.0)
    for intervals in range(2 + step, 8, step):
        member.seal("clicks", BASE + intervals * SLIDE)
        world.run(0.1)
    seal(world, 8)
    world.run(40.0)
    seal(world, 12)
    world.run(40.0)
    records = world.terminal(JOB)

    def lack(agent: Agent) -> list[int]:
        return [index for index, record in records.items() if f"agent-{agent.number}" in record.missing]

    assert lack(member)[:5] == [1002, 1003, 1004, 1005, 1006]
    assert letters(member) == {index: records_of(member, index) for index in lack(member)}
    assert counted(world) == total(world) - sum(records_of(dead, index) for index in lack(dead))


def reported_again(agent: Agent, index: int) -> Sealed:
    """What a restarted worker has on disk of an interval."""
    manifest = agent.control.member_host.members[JOB].manifest
    keys = Counter(key for at, key in agent.logs["clicks"] if at // SLIDE == index)
    payload = json.dumps(dict(sorted(keys.items()))).encode()
    part = (Contribution(index, (sum(keys.values()), *NOTHING[1:]), payload),)
    return Sealed(JOB, manifest.incarnation, index, index + 1, (part,), again=True)


def test_a_restarted_member_settles_what_it_had_sealed() -> None:
    world = running(6, 8)
    member = simple_member(world)
    seal(world, 3)
    world.run(3.0)
    world.split([member])
    member.seal("clicks", BASE + 5 * SLIDE)
    world.run(1.0)
    world.kill(member)
    seal(world, 5)
    world.run(30.0)
    world.heal()
    for _ in range(2):  # after a second restart nothing is counted again
        world.restart(member)
        world.run(5.0)
        for index in (1002, 1003, 1004):
            world.post(0.0, member, reported_again(member, index))
        world.run(10.0)
        assert letters(member) == {index: records_of(member, index) for index in (1003, 1004)}
        world.kill(member)
    world.restart(member)
    world.run(5.0)
    seal(world, 8)
    world.run(30.0)
    assert counted(world) == total(world)


def test_pending_corrections_go_up_once_though_the_member_restarts_before_the_interval_is_closed() -> None:
    world = running(6, 8)
    member = simple_member(world)
    world.split([member])
    seal(world, 4)
    world.run(20.0)
    world.heal()
    world.run(35.0)
    pending_corrections = sum(letters(member).values())
    member.seal("clicks", BASE + 5 * SLIDE)
    world.run(0.5)
    assert 1004 not in world.terminal(JOB)
    world.kill(member)
    world.run(0.2)
    world.restart(member)
    world.run(0.5)
    member.workers[JOB].sealed = 1005  # its frame log holds the interval
    for index in (1004,):
        world.post(0.0, member, reported_again(member, index))
    seal(world, 8)
    world.run(30.0)
    records = world.terminal(JOB)
    assert records[1004].missing == []
    assert records[1004].counts["expired"] == pending_corrections
    assert counted(world) == total(world)


def test_a_worker_may_forget_only_what_is_settled_and_nothing_before_it_has_spoken() -> None:
    world = running(6, 8)
    member = simple_member(world)
    seal(world, 3)
    world.run(3.0)
    world.split([member])
    member.seal("clicks", BASE + 5 * SLIDE)
    world.run(1.0)
    world.kill(member)
    seal(world, 5)
    world.run(30.0)
    world.heal()
    member.released.clear()
    member.watermarks.clear()
    world.restart(member)
    for agent in world.living:
        if agent is not member:
            agent.seal("clicks", BASE + 6 * SLIDE)
    world.run(30.0)
    assert member.released == [], "its frames were not read yet"
    for index in (1003, 1004):
        world.post(0.0, member, reported_again(member, index))
    world.run(0.1)
    assert member.released == []
    world.run(30.0)
    assert sorted(letters(member)) == [1003, 1004]
    assert member.released
    assert min(member.released) >= 1005
