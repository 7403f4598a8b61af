"""Records that come late for what is sealed and not closed (D-7, D-9, D-12), and who counts what."""

from __future__ import annotations

import json
import random
from collections import Counter

import pytest

from elfmesh import ids
from elfmesh.control.closing import revisions
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import Collected
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.clicks import BASE, SLIDE, exact, fill
from tests.control.closing.test_tentative import seen
from tests.control.member.support import TEXT, Agent
from tests.control.partition import SplitWorld

JOB = ids.job_id("shop/top", "local")
LONG = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' HORIZON '20 s'")


def running(agents: int, intervals: int, text: str = LONG) -> SplitWorld:
    """A job whose first interval is published."""
    world = SplitWorld(agents)
    fill(world, intervals=intervals)
    world.apply(world[0], text)
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    assert list(world.terminal(JOB)) == [1000]
    return world


def slow(world: SplitWorld) -> Agent:
    """A member that neither leads nor votes."""
    master = world.master().control.leadership.masters[JOB]
    voting = {contact.id for contact in master.term.committer.cell.value.acceptors}
    return next(agent for agent in world.living if agent.me.id not in voting)


def seal_but(world: SplitWorld, behind: Agent, intervals: int) -> None:
    for agent in world.living:
        if agent is not behind:
            agent.seal("clicks", BASE + intervals * SLIDE)


def tentative(world: SplitWorld) -> ResultRecord:
    """The one interval that is shown as it is."""
    records, _ = seen(world, world[0])
    (record,) = [record for record, _ in records if record.state == "TENTATIVE"]
    return record


def counted(world: SplitWorld) -> int:
    return sum(sum(record.counts.values()) for record in world.terminal(JOB).values())


def total(world: SplitWorld) -> int:
    return sum(len(agent.logs.get("clicks", [])) for agent in world.agents.values())


def test_what_comes_late_while_a_straggler_is_waited_for_is_shown_and_then_final() -> None:
    world = running(6, 3)
    behind = slow(world)
    seal_but(world, behind, 2)
    world.run(3.0)
    shown = tentative(world)
    late = next(agent for agent in world.living if agent is not behind)
    late.late("clicks", [(1001 * SLIDE + 5, "late")])
    world.run(2.0)
    again = tentative(world)
    assert again.rev > shown.rev
    assert again.counts["contributed"] == shown.counts["contributed"] + 1
    behind.seal("clicks", BASE + 2 * SLIDE)
    world.run(3.0)
    record = world.terminal(JOB)[1001]
    assert (record.state, record.counts["late_dropped"]) == ("FINAL", 0)
    assert [rev for _, rev in record.revs] == [2]
    world.seal_all(BASE + 3 * SLIDE)
    world.run(3.0)
    exact(world, world[0])
    assert counted(world) == total(world)


def test_a_revision_of_what_was_closed_meanwhile_is_late_and_counted_once() -> None:
    world = running(6, 3)
    late = slow(world)
    late.late("clicks", [(1000 * SLIDE + 5, "late"), (1000 * SLIDE + 6, "late")])
    world.run(1.0)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(5.0)
    records = world.terminal(JOB)
    assert records[1000].revs == ()
    assert sum(record.counts["late_dropped"] for record in records.values()) == 2
    assert counted(world) == total(world)


def test_a_silent_interval_may_be_revised() -> None:
    world = running(6, 1)
    behind, late, *_ = [slow(world), *world.living]
    seal_but(world, behind, 2)
    late.late("clicks", [(1001 * SLIDE + 5, "only")])
    world.run(3.0)
    behind.seal("clicks", BASE + 2 * SLIDE)
    world.run(3.0)
    assert world.terminal(JOB)[1001].counts["contributed"] == 1
    exact(world, world[0])


def merged_at_the_root(world: SplitWorld, index: int, agents: list[Agent]) -> None:
    """What a barrier would have made of these agents' first contributions."""
    pieces = [
        (segment, dict(zip([entry.interval for entry in segment.entries], payloads, strict=True)))
        for agent in agents
        for segment, payloads in agent.contributed[JOB]
        if segment.start <= index < segment.stop and segment.epoch
    ]
    coverage = sum(int.from_bytes(segment.coverage, "little") for segment, _ in pieces)
    counts = [entry.counts for segment, _ in pieces for entry in segment.entries if entry.interval == index]
    payload = merge_json([payloads[index] for _, payloads in pieces if index in payloads])
    entry = SegmentEntry(index, tuple(map(sum, zip(*counts, strict=True))), len(payload))
    segment = Segment(pieces[0][0].epoch, 0, index, index + 1, bitmap_of(coverage), (entry,))
    world.post(0.0, world.agents[world.roots[JOB]], Collected(JOB, segment, (payload,)))


def merge_json(payloads: list[bytes]) -> bytes:
    whole: Counter[str] = Counter()
    for payload in payloads:
        whole.update(json.loads(payload))
    return json.dumps(whole).encode()


@pytest.mark.parametrize("answers", [True, False])
def test_a_revision_of_what_is_merged_is_collected_again_or_late(answers: bool) -> None:
    world = running(6, 3)
    behind = slow(world)
    others = [agent for agent in world.living if agent is not behind]
    arrive = world._arrive
    world._arrive = lambda *_: None  # type: ignore[method-assign]  # on its way through the barriers
    seal_but(world, behind, 2)
    world.run(0.1)
    merged_at_the_root(world, 1001, others)
    world._arrive = arrive  # type: ignore[method-assign]  # the way up
    if not answers:
        world._arrive = lambda tree, segment, payloads: (  # type: ignore[method-assign]  # the way up
            None if segment.attempt else arrive(tree, segment, payloads)
        )
    others[0].late("clicks", [(1001 * SLIDE + 5, "late")])
    world.run(3.0)
    behind.seal("clicks", BASE + 2 * SLIDE)
    world.run(1.0 if answers else 2 * revisions.WAIT_S + 1.0)
    record = world.terminal(JOB)[1001]
    assert record.state == "FINAL"
    assert [rev for _, rev in record.revs] == ([2] if answers else [])
    world._arrive = arrive  # type: ignore[method-assign]  # the way up
    world.seal_all(BASE + 3 * SLIDE)
    world.run(5.0)
    assert counted(world) == total(world)
    dropped = sum(each.counts["late_dropped"] for each in world.terminal(JOB).values())
    assert dropped == (0 if answers else 1)


@pytest.mark.parametrize("seed", range(10))
def test_every_record_is_counted_once_whenever_it_comes_and_whichever_agent_leads(seed: int) -> None:
    rng = random.Random(seed)
    partitions = rng.choice((1, 1, 3))
    text = LONG.replace("DEADLINE", f"PARTITIONS {partitions} DEADLINE")
    world = running(6, 12, text)
    behind = slow(world)
    for step in range(1, 11):
        seal_but(world, behind, step + 1)
        for _ in range(rng.randrange(4)):
            agent = rng.choice(world.living)
            index = 1000 + rng.randrange(max(0, step - 3), step + 1)
            agent.late("clicks", [(index * SLIDE + rng.randrange(SLIDE), rng.choice("xyz"))])
            world.run(rng.choice((0.0, 0.05, 0.3)))
        if rng.random() < 0.15:
            world.split([world.master()])
            world.run(rng.choice((3.0, 10.0)))
            world.heal()
            world.run(5.0)
        world.run(rng.choice((0.1, 1.0, 3.0)))
        if rng.random() < 0.7:
            behind.seal("clicks", BASE + (step + 1) * SLIDE)
    world.run(60.0)
    for index in (1012, 1013, 1014):  # what was left out is a pending correction to these
        fill(world, intervals=1, first=index)
        world.seal_all(BASE + (index - 999) * SLIDE)
        world.run(40.0)
    assert list(world.terminal(JOB)) == list(range(1000, 1015))
    assert counted(world) == total(world)
