"""A host with a rule about where its data is kept: in which jobs it takes part, and what it reports."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from elfmesh.control.jobs.policy import OPEN
from elfmesh.control.protocol.events import WorkerReport
from elfmesh.control.protocol.messages import Announce, Report
from elfmesh.control.protocol.messages_residency import Excluded
from elfmesh.machine import Effect, Send
from tests.control.member.test_member_host import Rig, of
from tests.control.register.support import JOB, MANIFEST, A, B

IN_EU = (("region=eu",),)
KEEPS = dataclasses.replace(OPEN, keep_in=IN_EU)
INSIDE = replace(A, region="eu")


def excluded(out: list[Effect]) -> list[str]:
    sent = [effect.message for effect in out if isinstance(effect, Send)]
    return [message.why for message in sent if isinstance(message, Excluded)]


def test_a_host_takes_no_part_in_a_job_whose_master_its_rule_excludes_and_the_master_learns_it() -> None:
    rig = Rig(policy=KEEPS)
    assert of(rig.announce()) == (False, "")
    assert excluded(rig.out()) == ["the master"]
    found = rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    assert of(found) == (True, "")
    assert found.participant.keep_in == IN_EU
    assert excluded(rig.out()) == []


def test_a_member_leaves_when_an_agent_leads_that_its_rule_excludes_and_stays_when_it_does_not() -> None:
    rig = Rig(policy=KEEPS)
    rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    rig.number(master=INSIDE)
    requests = rig.host.members[JOB].requests
    leaving = [requests.leaving]
    rig.number(master=B, epoch=2)
    leaving.append(requests.leaving)
    assert excluded(rig.out()) == ["the master"]
    rig.number(master=INSIDE, epoch=3)
    assert [*leaving, requests.leaving] == [False, True, False]


def test_a_host_with_a_rule_reports_no_lines() -> None:
    rig = Rig(policy=KEEPS)
    rig.host.on_announce(Announce(MANIFEST, INSIDE, 1))
    rig.out()
    rig.host.worker_reported(WorkerReport(JOB, ("a line",), "no memory"))
    assert rig.out() == [Send(INSIDE, Report(JOB, rig.context.name, (), "no memory"))]


def test_a_host_takes_no_part_in_a_query_over_its_limit_and_the_master_learns_it() -> None:
    rig = Rig(policy=dataclasses.replace(OPEN, query_bytes=99))
    rig.context.facts = lambda topic, *about: {"clicks": {"files": 1, "bytes": 100}}
    leased = replace(MANIFEST, leased=True)
    assert of(rig.host.on_announce(Announce(leased, A, 1))) == (False, "")
    assert excluded(rig.out()) == ["it would read 100 B, and its limits.query_bytes allows 99 B"]
    assert of(rig.host.on_announce(Announce(MANIFEST, A, 1))) == (True, "")
