"""A job, an agent and a stream as people see them."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.protocol.events import StreamInfo
from elfmesh.control.protocol.replies_agents import Health
from elfmesh.control.register.acceptor_contacts import MAJORITY_S
from elfmesh.control.requests.describe import (
    MISSING_SHOWN,
    NO_MAJORITY,
    _labels,
    agent_row,
    head_of,
    shown_interval,
    stream_row,
)
from elfmesh.interval_map import END
from tests.control.member.support import TEXT
from tests.control.requests.led import JOB, Led, shown


@pytest.mark.parametrize(
    ("index", "shown"), [(FIRST, None), (FIRST + 1, FIRST + 1), (0, 0), (END - 1, END - 1), (END, None)]
)
def test_since_ever_and_for_ever_are_no_numbers_for_people(index: int, shown: int | None) -> None:
    assert shown_interval(index) == shown


def test_the_row_of_a_job_shows_how_it_stands() -> None:
    rig = Led()
    row = rig.row()
    expected = {
        "id": JOB.hex(),
        "job": "shop/top",
        "creator": "local",
        "version": 1,
        "state": "running",
        "stream": "clicks",
        "agents": 3,
        "latest": 1001,
        "master": rig.context.name,
        "epoch": 1,
        "result": "FINAL",
        "completeness": 1.0,
        "missing": [],
        "held_for_seconds": None,
    }
    assert {key: row[key] for key in expected} == expected


def test_a_job_without_records_has_no_result() -> None:
    rig = Led()
    rig.master.tally.recent.clear()
    row = rig.row()
    assert (row["result"], row["completeness"], row["missing"]) == (None, None, [])


@pytest.mark.parametrize("more", [0, 1])
def test_a_list_names_a_few_missing_agents(more: int) -> None:
    rig = Led()
    names = [f"agent-{number:02}" for number in range(MISSING_SHOWN + more)]
    rig.master.tally.recent.append(ResultRecord(job="shop/top", index=1002, missing=names))
    assert rig.row()["missing"] == names[:MISSING_SHOWN]
    assert rig.described()["results"][-1]["missing"] == names, "the description names all"


@pytest.mark.parametrize(("silent_s", "state"), [(MAJORITY_S, "running"), (MAJORITY_S + 0.1, NO_MAJORITY)])
def test_a_job_whose_voters_are_silent_has_no_majority(silent_s: float, state: str) -> None:
    rig = Led()
    committer = rig.master.term.committer
    committer._committing, committer._since = True, rig.context.now - silent_s
    assert committer.unanswered_s == pytest.approx(silent_s)
    committer._since = 0.0
    rig.context.now = silent_s
    assert rig.row()["state"] == state


def test_a_job_that_waits_names_the_interval_and_the_missing_agents() -> None:
    rig = Led()
    late = rig.late(5.0)
    body = rig.described()
    assert body["collecting"]["index"] == 1002
    assert body["collecting"]["missing"] == [f"agent-{late.number}"]
    assert body["collecting"]["due_for_seconds"] == rig.row()["held_for_seconds"]
    assert 4.0 <= body["collecting"]["due_for_seconds"] <= 5.0
    assert body["closed_below"] == 1002
    frontiers = {each["agent"]: each["frontier"] for each in body["roster"]["agents"]}
    assert frontiers.pop(f"agent-{late.number}") == 1002
    assert set(frontiers.values()) == {1003}


def test_a_job_in_time_waits_for_no_agent() -> None:
    collecting = Led().described()["collecting"]
    assert (collecting["due_for_seconds"], collecting["missing"]) == (None, [])


def test_a_dead_member_is_marked_as_one() -> None:
    rig = Led()
    victim = rig.late(0.0)
    rig.world.kill(victim)
    rig.world.run(1.5)
    dead = {each["agent"]: each["dead"] for each in rig.described()["roster"]["agents"]}
    assert dead.pop(f"agent-{victim.number}") is True
    assert set(dead.values()) == {False}


def test_a_description_has_the_rules_of_the_job_and_its_voters() -> None:
    rig = Led()
    body = rig.described()
    assert (body["text"], body["incarnation"]) == (TEXT, rig.master.term.manifest.incarnation)
    assert (body["signed"], body["partitions"], body["labels"]) == (None, 1, {})
    assert body["window"] == {"size": "10 s", "slide": "10 s"}
    assert len(body["voters"]) == 3
    assert body["voters_without_votes"] == []
    assert body["counts"]["contributed"] == sum(each["counts"]["contributed"] for each in body["results"])
    assert [each["index"] for each in body["results"]] == [1000, 1001]
    json.dumps(body)


def test_a_description_has_the_racks_of_the_voters_where_there_are_any() -> None:
    rig = Led()
    assert "voter_domains" not in rig.described()
    committer = rig.master.term.committer
    first, *others = committer.cell.value.acceptors
    labelled = replace(first, rack="r1", region="eu")
    value = replace(committer.cell.value, acceptors=(labelled, *others))
    committer.changed(RegisterCell(value, committer.cell.tail))
    assert rig.described()["voter_domains"] == ["eu/r1", *("" for _ in others)]


def test_a_description_names_voters_that_have_lost_their_votes() -> None:
    rig = Led()
    voter = rig.master.term.committer.cell.contacts[0]
    rig.master.proposer.lost[voter.id] = 1
    assert rig.described()["voters_without_votes"] == [f"{voter.host}:{voter.port}"]


def test_faults_of_the_master_and_of_the_workers_are_described() -> None:
    rig = Led()
    rig.master.term.closer.errors.append("it is torn")
    rig.master.tally.worker_errors["agent-1"] = "no memory"
    assert rig.described()["errors"] == ["it is torn", "agent-1: no memory"]


def test_the_labels_of_the_text_are_described() -> None:
    labelled = TEXT.replace("FROM clicks", "FROM clicks ON (zone = 'a')")
    assert _labels(read_plan(labelled)) == {"zone": "a"}
    several = """CREATE JOB shop.top EVERY '10 s' AS SELECT c.product, COUNT(*) AS hits
    FROM clicks ON (zone = 'a') c JOIN orders o ON c.product = o.product GROUP BY c.product"""
    assert _labels(read_plan(several)) == {"clicks": {"zone": "a"}, "orders": {}}


def test_a_summary_is_a_part_of_the_record() -> None:
    record = ResultRecord(job="shop/top", index=3, start_us=30_000_000, missing=["b"], completeness=0.5)
    found = shown(head_of(record))
    assert found == {
        "index": 3,
        "start": "1970-01-01T00:00:30Z",
        "state": "FINAL",
        "completeness": 0.5,
        "missing": ["b"],
        "counts": {},
    }


def test_the_row_of_an_agent_names_its_jobs_without_their_costs() -> None:
    rig = Led()
    rig.context.facts = lambda topic: (
        {"load": {"jobs": 1}, "job_costs": {"shop/top": 1}} if topic == "agent" else {}
    )
    health = Health(status="waiting", problem="the disk is full", agent=rig.context.name)
    row = agent_row(rig.context, rig.agent.control.member_host, ["shop/top"], health)
    assert row.health is health
    assert (row.name, row.status, row.address) == (
        rig.context.name,
        "alive",
        f"sim:{rig.agent.number}",
    )
    assert (row.streams, row.jobs, row.masters) == (["clicks"], ["shop/top"], ["shop/top"])
    assert row.load == {"jobs": 1}
    assert "job_costs" not in shown(row)


def test_the_row_of_a_stream_names_the_agent() -> None:
    rig = Led()
    row = shown(stream_row(rig.context, StreamInfo.of("clicks", "json", None)))
    assert row == {"stream": "clicks", "format": "json", "agent": rig.context.name, "columns": []}
