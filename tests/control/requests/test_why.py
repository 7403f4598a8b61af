"""Why a job does not go on: what holds its first open interval, in a field and in a sentence."""

from __future__ import annotations

import pytest

from elfmesh.control.jobs.records import Partly, ResultRecord
from elfmesh.control.protocol.messages_standby import Shipping
from elfmesh.control.requests.why import CONTRIBUTING, IN_TIME, NAMED, UNANSWERED_S
from tests.control.clicks import BASE, SLIDE
from tests.control.member.support import TEXT
from tests.control.requests.led import JOB, Led


def test_a_job_in_time_is_held_by_nothing() -> None:
    found = Led().why()
    assert (found["stage"], found["held_for_seconds"], found["agents"]) == (IN_TIME, None, [])
    assert found["because"] == "nothing is held: no agent has sealed the next interval yet"
    assert (found["in"], found["expected"], found["tentative_rev"]) == (0, 3, 0)
    assert found["interval"]["index"] == 1002


def test_a_job_that_waits_names_the_agent_that_is_behind() -> None:
    rig = Led()
    late = rig.late(5.0)
    found = rig.why()
    assert (found["stage"], found["in"], found["expected"]) == (CONTRIBUTING, 2, 3)
    (agent,) = found["agents"]
    name = f"agent-{late.number}"
    assert (agent["agent"], agent["state"], agent["frontier"], agent["behind"]) == (name, "behind", 1002, 1)
    assert (agent["dead_for_seconds"], agent["error"]) == (None, "")
    assert found["missing"] == [name]
    assert found["because"].startswith(f"{name} has not sealed it; due for ")
    assert "(ON STRAGGLER " in found["because"]


def test_a_member_whose_contribution_is_on_the_way_is_distinguished_from_one_that_is_behind() -> None:
    rig = Led()
    late = rig.late(5.0)
    entry = rig.master.term.book.of(late.me.id)
    assert entry is not None
    rig.master.term.collection.frontiers.note(entry.number, 1002)
    assert rig.why()["agents"][0]["state"] == "behind", "it has sealed what is closed"
    rig.master.term.collection.frontiers.note(entry.number, 1003)
    found = rig.why()
    assert found["agents"][0]["state"] == "on the way"
    assert "has sealed it, and its contribution is not here" in found["because"]


def test_the_error_of_a_worker_stands_beside_its_agent() -> None:
    rig = Led()
    late = rig.late(5.0)
    rig.master.tally.worker_errors[f"agent-{late.number}"] = "no memory"
    found = rig.why()
    assert found["agents"][0]["error"] == "no memory"
    assert "has not sealed it (no memory)" in found["because"]


def test_a_dead_member_is_named_before_an_interval_is_due() -> None:
    rig = Led()
    victim = next(agent for agent in rig.world.living if agent is not rig.agent)
    rig.world.kill(victim)
    rig.world.run(3.0)
    found = rig.why()
    (agent,) = found["agents"]
    assert (found["stage"], agent["state"]) == (IN_TIME, "dead")
    assert agent["dead_for_seconds"] > 1.0
    assert found["because"].startswith("no agent has sealed the next interval yet; it expects agent-")
    assert "which does not answer" in found["because"]


def test_a_sentence_names_a_few_agents_and_counts_the_others() -> None:
    rig = Led()
    names = [f"agent-{number}" for number in range(NAMED + 2)]
    rig.master.tally.recent.append(
        ResultRecord(job="shop/top", index=1001, state="FINAL_PARTIAL", missing=names, agents_expected=9)
    )
    found = rig.why()
    assert found["missing"] == names
    assert found["because"].endswith(
        "; the newest record (interval 1001, FINAL_PARTIAL) has 1 of 9 agents and lacks "
        "agent-0, agent-1, agent-2 and 2 more"
    )
    assert found["newest"]["index"] == 1001


def test_an_interval_without_rows_is_named_with_its_reason() -> None:
    rig = Led()
    rig.master.tally.recent += [
        ResultRecord(job="shop/top", index=1001, state="SKIPPED", reason="first"),
        ResultRecord(job="shop/top", index=1002, state="SKIPPED", reason="no memory"),
        ResultRecord(job="shop/top", index=1003),
    ]
    assert "; interval 1002 has no rows: no memory" in rig.why()["because"]


def test_the_standby_of_a_dead_member_is_named_with_what_it_lacks_at_most() -> None:
    rig = Led(TEXT.replace("DEADLINE", "STANDBY ALL DEADLINE"))
    term = rig.master.term
    victim = next(agent for agent in rig.world.living if agent is not rig.agent)
    entry = term.book.of(victim.me.id)
    assert entry is not None
    standby = next(each for each in term.book.active if each is not entry)
    about = JOB, term.epoch, entry.number, standby.contact.id
    term.members.on_shipping(entry.contact, Shipping(*about, lag_ms=1200, bytes_s=900))
    assert "stands by" not in rig.why()["because"], "the member lives"
    rig.world.kill(victim)
    rig.world.run(10.0)
    found = rig.why()
    assert (
        f"; {standby.name} stands by for {entry.name} and lacks at most its newest 1.2 s" in found["because"]
    )
    (agent,) = found["agents"]
    assert (agent["standby"], agent["standby_lag_seconds"]) == (standby.name, 1.2)


def test_the_prefixes_in_the_newest_record_are_named() -> None:
    rig = Led()
    partly = (Partly(1, "web3", 1_000_000, 17, 3),)
    newest = ResultRecord(job="shop/top", index=1003, state="FINAL_PARTIAL", missing=["web3"], partly=partly)
    rig.master.tally.recent.append(newest)
    because = rig.why()["because"]
    assert "lacks web3, but has from their standbys: web3 up to 1970-01-01T00:00:01" in because
    assert "(20 records)" in because


def test_voters_that_have_lost_their_votes_are_named() -> None:
    rig = Led()
    voter = rig.master.term.committer.cell.contacts[0]
    rig.master.proposer.lost[voter.id] = 1
    found = rig.why()
    assert found["voters_without_votes"] == [f"{voter.host}:{voter.port}"]
    assert f"; lost their votes, and are being replaced: {voter.host}:{voter.port}" in found["because"]


def test_a_problem_of_the_master_is_named() -> None:
    rig = Led()
    rig.context.facts = lambda topic: {"problem": "the disk is full"} if topic == "problem" else {}
    assert f"; {rig.context.name}, which leads the job, waits: the disk is full" in rig.why()["because"]


@pytest.mark.parametrize(
    ("flag", "stage", "sentence"),
    [
        ("paused", "paused", "the job is paused: `elf resume` lets it go on"),
        ("behind", "fetching earlier results", "a new master fetches the results that it lacks"),
        ("founding", "founding", "the job begins: agents that carry its stream are still being gathered"),
    ],
)
def test_a_flag_of_the_closer_is_the_stage(flag: str, stage: str, sentence: str) -> None:
    rig = Led()
    setattr(rig.master.term.closer, flag, True)
    found = rig.why()
    assert (found["stage"], found["because"]) == (stage, sentence)


@pytest.mark.parametrize(
    ("silent_s", "stage"), [(UNANSWERED_S, "in time"), (UNANSWERED_S + 0.1, "waiting for a majority")]
)
def test_silent_voters_are_the_stage_after_a_second(silent_s: float, stage: str) -> None:
    rig = Led()
    committer = rig.master.term.committer
    committer._committing, committer._since = True, 0.0
    rig.context.now = silent_s
    found = rig.why()
    assert found["stage"] == stage
    assert ("most of the agents that vote on the job do not answer" in found["because"]) == (
        stage != "in time"
    )


def test_an_interval_whose_rows_are_being_made_is_finishing() -> None:
    rig = Led()
    rig.world.lost = lambda source, target, message: True
    for agent in rig.world.living:
        agent.seal("clicks", BASE + 3 * SLIDE)
    rig.world.run(0.9)
    found = rig.why()
    assert (found["stage"], found["agents"]) == ("finishing", [])
    assert found["because"].startswith("its rows are being made or its record is being written")
