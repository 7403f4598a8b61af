"""What people should know of an agent: how it is, its votes, and those on its jobs."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.context import Context
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.protocol.replies_agents import DeadAgentRow, VotesLoss, VotesReport
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.requests.voting import contradicted, health, voting, without_majority
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS
from tests.control.requests.led import shown

OTHER = b"o" * 20
SOUND = VotesReport(None, [])


def leadership(**parts: Any) -> Leadership:
    """What of a leadership is asked here."""
    parts = {"masters": {}, "attempts": {}, "loss": None, "jobs": [], "known": {}} | parts
    acceptors = SimpleNamespace(lost=SimpleNamespace(loss=parts["loss"], asked=lambda now: parts["jobs"]))
    found = SimpleNamespace(
        masters=parts["masters"],
        elections=SimpleNamespace(without_majority=lambda: parts["attempts"]),
        registers=SimpleNamespace(acceptors=acceptors),
        known=lambda job: (parts["known"].get(job), None),
    )
    return cast(Leadership, found)


def master(unanswered_s: float) -> Any:
    term = SimpleNamespace(manifest=MANIFEST, committer=SimpleNamespace(unanswered_s=unanswered_s))
    return SimpleNamespace(term=term)


def attempt() -> Any:
    return SimpleNamespace(terms=replace(TERMS, manifest=replace(MANIFEST, name="stuck")))


@pytest.mark.parametrize(
    ("is_root", "leads", "counts"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_job_is_without_a_majority_where_its_root_cannot_lead_it(
    is_root: bool, leads: bool, counts: bool
) -> None:
    context = new_context(1)
    if is_root:
        context.roots[JOB] = None
    masters = {JOB: master(0.0)} if leads else {}
    found = leadership(attempts={JOB: attempt()}, masters=masters)
    assert (JOB in without_majority(context, found)) is counts
    assert voting(context, found).without_majority == (["shop/stuck"] if counts else [])


@pytest.mark.parametrize(("unanswered_s", "stuck"), [(MAJORITY_S, []), (MAJORITY_S + 0.1, ["shop/top"])])
def test_a_job_that_is_led_is_named_once_its_voters_are_silent_for_long(
    unanswered_s: float, stuck: list[str]
) -> None:
    found = voting(new_context(1), leadership(masters={JOB: master(unanswered_s)}))
    assert found == VotesReport(None, stuck)


def test_a_loss_of_votes_names_the_jobs_that_still_count_on_them() -> None:
    loss = SimpleNamespace(boot=4, path="state.log", reason="a damaged frame", kept="state.log.bad")
    found = voting(new_context(1), leadership(loss=loss, jobs=[JOB, OTHER], known={JOB: TERMS}))
    jobs = ["shop/top", OTHER.hex()]
    assert found.lost == VotesLoss(4, "state.log", "a damaged frame", "state.log.bad", jobs)


def agent(facts: dict[str, Any], functions: str = "") -> Context:
    context = new_context(1)
    context.facts = lambda topic: {"problem": facts, "functions": {"problem": functions}}.get(topic, {})
    return context


LOST = VotesReport(None, ["shop/top"])


@pytest.mark.parametrize(
    ("facts", "functions", "votes", "status", "problem"),
    [
        ({}, "", SOUND, "ok", None),
        ({"problem": "the disk is full"}, "", SOUND, "waiting", "the disk is full"),
        ({}, "no sandbox", SOUND, "degraded", "no sandbox"),
        ({"held": {"shop/top": "too many groups"}}, "", SOUND, "degraded", "too many groups"),
        ({"held": {"shop/top": "too many groups"}}, "no sandbox", SOUND, "degraded", "too many groups"),
        (
            {"problem": "the disk is full", "held": {"a": "b"}},
            "no sandbox",
            LOST,
            "waiting",
            "the disk is full",
        ),
    ],
)
def test_an_agent_reports_its_worst_problem(
    facts: dict[str, Any], functions: str, votes: VotesReport, status: str, problem: str | None
) -> None:
    found = shown(health(agent(facts, functions), votes, []))
    assert (found["agent"], found["status"], found.get("problem")) == ("agent-1", status, problem)
    assert found.get("held") == facts.get("held")


def test_jobs_without_a_majority_are_worse_than_functions_that_are_off() -> None:
    found = shown(health(agent({}, "no sandbox"), LOST, []))
    assert found["status"] == "degraded"
    assert "shop/top" in found["problem"]


def test_dead_agents_are_named_and_are_no_problem_of_this_agent() -> None:
    found = shown(
        health(
            agent({"sinks": {"a": 1}, "slowed": {}}),
            SOUND,
            [DeadAgentRow("agent-7", "07", "h:7", 1, "dead", None)],
        )
    )
    assert found == {"status": "ok", "sinks": {"a": 1}, "dead_agents": ["agent-7"], "agent": "agent-1"}


def test_warnings_are_reported_and_change_no_status() -> None:
    assert shown(health(agent({"warnings": ["late"]}), SOUND, [])) == {
        "status": "ok",
        "warnings": ["late"],
        "agent": "agent-1",
    }


def test_an_agent_is_degraded_while_a_job_that_it_leads_breaks_its_assumptions() -> None:
    term = SimpleNamespace(manifest=MANIFEST)
    held, broken = (SimpleNamespace(term=term, tally=SimpleNamespace(broken=number)) for number in (0, 3))
    assert contradicted(leadership(masters={JOB: held})) == ""
    reason = contradicted(leadership(masters={OTHER: held, JOB: broken}))
    assert reason == "shop/top: violations of ASSUME in recent intervals: 3"
    found = shown(health(agent({}), SOUND, [], reason))
    assert (found["status"], found["problem"]) == ("degraded", reason)
    assert shown(health(agent({"problem": "the disk is full"}), SOUND, [], reason))["status"] == "waiting"
