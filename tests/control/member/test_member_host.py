"""Which jobs an agent works on, by what it carries and what it hears of jobs, and how it stops."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.policy import OPEN, Grant, Policy
from elfmesh.control.jobs.terms import RosterEntry, Terms
from elfmesh.control.member import admission
from elfmesh.control.member import member_host as under_test
from elfmesh.control.member.admission import KIND
from elfmesh.control.member.job_questions import ASK_ALWAYS_S, ASK_S
from elfmesh.control.member.member_host import AT_ONCE, LEAVING, LEFT_S, MemberHost
from elfmesh.control.protocol.events import (
    LocalStreams,
    Persist,
    StartWorker,
    StopWorker,
    StreamInfo,
    WorkerReport,
)
from elfmesh.control.protocol.messages import Announce, Enroll, Report, Running, Verdict, WhatRuns, unpack
from elfmesh.control.protocol.messages_versions import Rehearse, Rehearsed
from elfmesh.machine import Effect, Send
from elfmesh.overlay.events import Route
from elfmesh.ql.plan.early import EARLY
from elfmesh.ql.text import parsing
from elfmesh.ql.text.clauses import job_header
from elfmesh.srt.events import Subscribe, Unsubscribe
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS, A, B, run

CLICKS = ids.stream_id("clicks")
JITTER = 1.25
FIELDS = pa.schema([("ts", pa.timestamp("us", "UTC")), ("product", pa.string())])


class Rig:
    """What one agent carries, and the jobs that it works on."""

    def __init__(self, *streams: str, labels: dict[str, str] | None = None, policy: Policy = OPEN) -> None:
        self.context = new_context(1)
        self.context.policy = policy
        self.host = MemberHost(self.context)
        self.carry(*(streams or ("clicks",)), labels=labels)
        self.out()

    def carry(
        self, *streams: str, labels: dict[str, str] | None = None, schema: pa.Schema | None = None
    ) -> None:
        infos = tuple(StreamInfo.of(name, "json", schema) for name in streams)
        self.host.carries(LocalStreams(infos, tuple(sorted((labels or {}).items()))))

    def announce(self, manifest: Manifest = MANIFEST, epoch: int = 1, **other: Any) -> Verdict:
        founding = other.pop("founding", True)
        return self.host.on_announce(Announce(manifest, A, epoch, **other), founding=founding)

    def out(self) -> list[Effect]:
        out, self.context.out = self.context.out, []
        return out

    def wait(self, until: float) -> list[Effect]:
        run(self.context, until)
        return self.out()

    def number(self, until: int | None = None, closed: int = 5, **changes: Any) -> None:
        """The master's roster has this agent, up to an interval."""
        entry = RosterEntry(0, self.context.me, "m", 0, until)
        version = changes.pop("version", 2 if until is None else 3)
        terms = replace(TERMS, version=version, closed=closed, members=(entry,), **changes)
        self.host.on_roster(terms)


def test_a_report_of_a_worker_goes_to_the_master() -> None:
    rig = Rig()
    rig.announce()
    rig.out()
    rig.host.worker_reported(WorkerReport(JOB, ("a sample",), "no memory"))
    rig.host.worker_reported(WorkerReport(bytes(20), (), "of no job here"))
    assert rig.out() == [Send(A, Report(JOB, rig.context.name, ("a sample",), "no memory"))]


def of(found: Verdict) -> tuple[bool, str]:
    return found.takes_part, found.error


def questions(out: list[Effect]) -> list[str]:
    """The streams whose rendezvous is asked what runs."""
    messages = [unpack(effect.body) for effect in out if isinstance(effect, Route)]
    return [message.stream for message in messages if isinstance(message, WhatRuns)]


def test_a_founding_member_starts_its_worker_at_the_interval_of_the_master() -> None:
    rig = Rig()
    assert of(rig.announce(start=7)) == (True, "")
    (started,) = [effect for effect in rig.out() if isinstance(effect, StartWorker)]
    assert (started.manifest, started.start) == (MANIFEST, 7)
    assert list(rig.host.members) == [JOB]


@pytest.mark.parametrize("later", [{"version": 1}, {"founding": False}])
def test_a_member_that_comes_later_asks_for_its_interval_first(later: dict[str, Any]) -> None:
    rig = Rig()
    assert of(rig.announce(**later)) == (True, "")
    out = rig.out()
    assert not [effect for effect in out if isinstance(effect, StartWorker)]
    (enrolment,) = [effect for effect in out if isinstance(effect, Send)]
    assert enrolment.to == A
    assert isinstance(enrolment.message, Enroll)


def test_the_same_announcement_twice_begins_one_member() -> None:
    rig = Rig()
    rig.announce()
    member = rig.host.members[JOB]
    rig.out()
    assert of(rig.announce()) == (True, "")
    assert (rig.host.members[JOB], rig.out()) == (member, [])


@pytest.mark.parametrize(("epoch", "follows"), [(1, False), (2, True), (3, True)])
def test_a_member_follows_the_master_of_its_epoch_or_a_later_one(epoch: int, follows: bool) -> None:
    rig = Rig()
    rig.announce(epoch=2)
    rig.host.on_announce(Announce(MANIFEST, B, epoch))
    assert rig.host.members[JOB].master == (B if follows else A)


@pytest.mark.parametrize(
    ("streams", "narrowed", "labels", "takes_part"),
    [
        (["clicks"], (), {}, True),
        (["logs"], (), {}, False),
        (["clicks"], (("zone", "a"),), {"zone": "a"}, True),
        (["clicks"], (("zone", "a"),), {"zone": "b"}, False),
        (["clicks"], (("zone", "a"),), {}, False),
    ],
)
def test_an_agent_takes_part_with_the_stream_and_the_labels_of_a_job(
    streams: list[str], narrowed: tuple[tuple[str, str], ...], labels: dict[str, str], takes_part: bool
) -> None:
    rig = Rig(*streams, labels=labels)
    assert of(rig.announce(replace(MANIFEST, narrowed=narrowed))) == (takes_part, "")
    assert (JOB in rig.host.members) is takes_part


def test_a_text_that_cannot_be_read_is_refused_with_the_reason() -> None:
    found = Rig().announce(replace(MANIFEST, text="CREATE JOB"))
    assert not found.takes_part
    assert found.error


def test_an_agent_of_an_earlier_release_refuses_a_job_with_early_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The master reports each refusal with the name of its agent (`founding`)."""
    early = "CREATE JOB a.b EVERY '5 s' EARLY '1 s' AS SELECT k FROM clicks"
    options = tuple(option for option in job_header.OPTIONS if option != EARLY)
    monkeypatch.setattr(job_header, "OPTIONS", options)
    monkeypatch.setattr(under_test, "read_plan", read_plan.__wrapped__)
    parsing._parse.cache_clear()
    verdict = Rig().announce(replace(MANIFEST, text=early))
    parsing._parse.cache_clear()
    assert not verdict.takes_part
    assert "found `EARLY`" in verdict.error


def test_a_stream_without_the_fields_of_the_text_is_refused() -> None:
    rig = Rig()
    rig.carry("clicks", schema=pa.schema([("ts", pa.timestamp("us", "UTC"))]))
    found = rig.announce()
    assert "product" in found.error
    rig.carry("clicks", schema=FIELDS)
    assert of(rig.announce()) == (True, "")


def test_an_agent_works_on_a_limited_number_of_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(admission, "JOBS_MAX", 1)
    rig = Rig()
    rig.announce()
    found = rig.announce(replace(MANIFEST, job_id=b"o" * 20))
    assert of(found) == (False, "this agent works on 1 jobs already")
    assert of(rig.announce()) == (True, ""), "this one it works on"


def test_a_namespace_has_the_jobs_that_it_is_granted() -> None:
    rig = Rig(policy=Policy(namespaces={"shop": Grant(jobs=1), "free": Grant()}))
    rig.announce()
    found = rig.announce(replace(MANIFEST, job_id=b"o" * 20))
    assert "this agent works on 1 jobs of shop already" in found.error
    assert of(rig.announce(replace(MANIFEST, job_id=b"f" * 20, namespace="free"))) == (True, "")


def test_a_stopped_incarnation_is_not_begun_again_and_another_one_is() -> None:
    rig = Rig()
    rig.announce()
    rig.out()
    rig.host.stop(JOB, "i")
    out = rig.out()
    assert Persist(KIND, JOB, b"i") in out
    assert StopWorker(JOB, "i") in out
    assert of(rig.announce(epoch=9)) == (False, "")
    rig.host.stop(JOB, "i")
    assert Persist(KIND, JOB, b"i") not in rig.out(), "that is on disk"
    assert of(rig.announce(replace(MANIFEST, incarnation="j"), 9)) == (True, "")


def test_an_incarnation_that_was_stopped_before_a_restart_is_not_begun() -> None:
    rig = Rig()
    rig.host.admission.end(JOB, "i")
    assert of(rig.announce()) == (False, "")


def test_a_stop_of_another_incarnation_leaves_the_member_alone() -> None:
    rig = Rig()
    rig.announce()
    rig.host.stop(JOB, "h")
    assert JOB in rig.host.members


def test_the_ends_that_an_agent_remembers_are_limited_and_leave_the_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "STOPPED_MAX", 2)
    rig = Rig()
    for job in (b"1" * 20, b"2" * 20, b"3" * 20):
        rig.host.stop(job, "i")
    assert rig.out()[-1] == Persist(KIND, b"1" * 20, b"")


@pytest.mark.parametrize(("epoch", "replaced"), [(1, False), (2, True), (3, True)])
def test_a_new_incarnation_of_the_same_epoch_or_a_later_one_replaces_the_member(
    epoch: int, replaced: bool
) -> None:
    rig = Rig()
    rig.announce(epoch=2)
    found = rig.announce(replace(MANIFEST, incarnation="j"), epoch)
    assert found.takes_part is replaced
    assert rig.host.members[JOB].manifest.incarnation == ("j" if replaced else "i")
    assert rig.context.stats["control.fenced"] == (not replaced)


def test_an_agent_that_carries_a_stream_no_more_leaves_its_tree_and_its_jobs() -> None:
    rig = Rig()
    rig.announce()
    rig.out()
    rig.carry("logs")
    out = rig.out()
    assert Unsubscribe(CLICKS) in out
    assert Subscribe(ids.stream_id("logs")) in out
    assert StopWorker(JOB, "i", keeps_frames=True) in out
    assert rig.host.members == {}
    assert rig.host.admission.stream_ids == {ids.stream_id("logs")}


def test_a_stream_whose_jobs_are_known_is_asked_about_rarely() -> None:
    rig = Rig("clicks", "logs")
    rig.host.on_running(Running("clicks", (Announce(MANIFEST, A, 1),)))
    rig.host.on_running(Running("logs", ()))
    assert JOB in rig.host.members
    asked = questions(rig.wait(sum(ASK_S)))
    assert set(asked) == {"logs"}
    assert "clicks" in questions(rig.wait(JITTER * (sum(ASK_S) + ASK_ALWAYS_S)))


def test_a_restarted_agent_goes_on_with_the_jobs_that_are_still_for_it() -> None:
    rig = Rig()
    rig.host.remember(TERMS)
    other = replace(TERMS, manifest=replace(MANIFEST, job_id=b"o" * 20, narrowed=(("zone", "a"),)))
    rig.host.remember(other)
    rehearsed = rig.host.on_rehearse(Rehearse(MANIFEST, 1))
    assert rehearsed == Rehearsed(rig.context.me.id, None, True), "its streams are to come"
    rig.carry("clicks")
    assert list(rig.host.members) == [JOB]
    assert Persist("member", b"o" * 20, b"") in rig.out()


@pytest.mark.parametrize(
    ("text", "takes_part", "error"),
    [
        (MANIFEST.text, True, ""),
        (MANIFEST.text.replace("clicks", "logs"), False, ""),
        (MANIFEST.text.replace("product", "missing"), True, "missing"),
        ("CREATE JOB", False, "query"),
    ],
)
def test_an_agent_reports_whether_it_could_work_on_another_version(
    text: str, takes_part: bool, error: str
) -> None:
    rig = Rig()
    rig.carry("clicks", schema=FIELDS)
    rig.announce()
    rig.out()
    found = rig.host.on_rehearse(Rehearse(replace(MANIFEST, text=text, version=2), 1))
    assert (found.member, found.takes_part, bool(found.error)) == (
        rig.context.me.id,
        takes_part,
        bool(error),
    )
    assert error in found.error
    assert rig.out() == [], "nothing changes"


def test_an_agent_that_leaves_begins_nothing_and_asks_for_the_last_intervals() -> None:
    rig = Rig()
    rig.announce()
    rig.number()
    rig.out()
    left: list[int] = []
    rig.host.leave(left.append)
    out = rig.out()
    assert Persist(LEAVING, rig.context.me.id, b"\1") in out
    assert Unsubscribe(CLICKS) in out
    assert rig.host.members[JOB].requests.leaving
    assert of(rig.announce(replace(MANIFEST, job_id=b"o" * 20))) == (False, "")
    rig.host.leave(left.append, at_once=True)
    assert Persist(LEAVING, rig.context.me.id, AT_ONCE) in rig.out()
    assert rig.host.members[JOB].hand_over.begun
    rig.number(until=9, closed=8)
    rig.wait(1.0)
    assert left == []
    rig.number(until=9, closed=9, version=4)
    out = rig.wait(1.0 + LEFT_S)
    assert left == [1, 1], "each client gets one answer"
    assert Persist(LEAVING, rig.context.me.id, b"") in out
    assert StopWorker(JOB, "i") in out


def test_an_agent_that_others_count_on_stays_until_they_do_not() -> None:
    rig = Rig()
    rig.host.departed = lambda idle: False
    left: list[int] = []
    rig.host.leave(left.append)
    rig.wait(10 * LEFT_S)
    assert left == []
    rig.host.departed = lambda idle: idle
    rig.wait(11 * LEFT_S + 0.01)
    assert left == [0]


def test_a_restart_in_the_middle_of_leaving_goes_on_with_it_once_the_streams_are_there() -> None:
    rig = Rig()
    left: list[int] = []
    rig.host.was_leaving(left.append, b"\1")
    assert left == []
    rig.announce(founding=False)
    assert not [effect for effect in rig.out() if isinstance(effect, Send)], "it enrols under no new number"
    rig.host.stop(JOB, "i")
    rig.carry("clicks")
    assert left == [0]


def test_a_member_whose_labels_a_new_version_excludes_ends_at_its_last_interval_and_may_come_back() -> None:
    rig = Rig(labels={"zone": "b"})
    rig.announce()
    rig.number()
    narrowed = replace(MANIFEST, narrowed=(("zone", "a"),), version=2)
    rig.number(version=3, manifest=narrowed)
    member = rig.host.members[JOB]
    assert member.requests.leaving
    rig.number(until=9, closed=9, version=4, manifest=narrowed)
    rig.wait(LEFT_S + 0.01)
    assert rig.host.members == {}
    assert of(rig.announce(founding=False)) == (True, ""), "the labels are wanted again"


def test_a_roster_of_a_job_or_an_incarnation_that_is_not_here_is_not_acknowledged() -> None:
    rig = Rig()
    terms: Terms = replace(TERMS, members=(RosterEntry(0, rig.context.me, "m"),), version=1)
    assert rig.host.on_roster(terms) is None
    rig.announce()
    assert rig.host.on_roster(replace(terms, manifest=replace(MANIFEST, incarnation="j"))) is None
    ack = rig.host.on_roster(terms)
    assert ack is not None
    assert (ack.version, ack.number) == (1, 0)
    assert rig.host.on_roster(replace(terms, manifest=replace(MANIFEST, text="CREATE JOB"))) is None
    assert rig.context.stats["control.malformed"] == 1


def test_a_tree_is_named_by_its_job_where_the_agent_works_on_it() -> None:
    rig = Rig()
    rig.announce(replace(MANIFEST, partitions=2))
    assert rig.host.job_of(ids.partition_tree(JOB, 1)) == "shop/top"
    assert rig.host.job_of(b"t" * 20) == (b"t" * 20).hex()
