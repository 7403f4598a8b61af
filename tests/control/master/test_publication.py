"""A record that the register has closed reaches the log, its readers and the members, in this order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import Ballot
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.terms import PathLayout
from elfmesh.control.master.publication import Publication, PublishingTerm
from elfmesh.control.protocol.messages_register import Chosen
from elfmesh.control.register.changes import ChangeRefused
from elfmesh.control.register.outcome import Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.machine import Send
from tests.control.contexts import new_context
from tests.control.master.stub_term import other
from tests.control.register.support import MANIFEST, TERMS, VALUE


class Noted:
    """A part of a term: notes the calls of its methods."""

    def __init__(self, name: str, calls: list[str], **values: Any) -> None:
        vars(self).update(values, name=name, calls=calls)

    def __setattr__(self, attribute: str, value: Any) -> None:
        vars(self)[attribute] = value

    def __getattr__(self, method: str) -> Any:
        return lambda *args, **named: self.calls.append(f"{self.name}.{method}")


@dataclass
class Rig:
    calls: list[str] = field(default_factory=list)
    leading: bool = True

    def __post_init__(self) -> None:
        self.context, self.terms = new_context(1), TERMS
        self.manifest, self.plan = MANIFEST, read_plan(MANIFEST.text)
        self.closer = Noted("closer", self.calls, behind=False, closed=8)
        self.committer = Noted("committer", self.calls, closed=7)
        mending, pages = Noted("mending", self.calls), Noted("pages", self.calls)
        self.copy = Noted("copy", self.calls, mending=mending, pages=pages)
        self.result_service, self.trees = Noted("result_service", self.calls), Noted("trees", self.calls)
        self.quiesce, self.rollouts = Noted("quiesce", self.calls), Noted("rollouts", self.calls)
        self.tally, self.verifier = Noted("tally", self.calls), Noted("verifier", self.calls)
        self.bounded, self.collection = Noted("bounded", self.calls), Noted("collection", self.calls)
        self.early = Noted("early", self.calls)
        self.proposer = SimpleNamespace(chosen=None)
        self.publication = Publication(cast(PublishingTerm, self))

    def leads(self) -> bool:
        return self.leading

    def vote(self, record: ResultRecord, rows: bytes) -> bool:
        return True

    def changed(self) -> None:
        self.calls.append("changed")

    def deposed(self, refused: ChangeRefused) -> None:
        self.calls.append("deposed")


def test_the_log_has_a_record_before_its_readers() -> None:
    rig = Rig()
    rig.publication.published(ResultRecord(job="shop/top", index=7), b"rows")
    assert rig.calls == [
        "closer.published",
        "copy.add",
        "tally.published",
        "result_service.published",
        "verifier.published",
        "rollouts.published",
    ]


@pytest.mark.parametrize(("count", "first"), [(2, ["closer.committed"]), (0, [])])
def test_members_learn_what_is_closed_after_the_closer(count: int, first: list[str]) -> None:
    rig = Rig()
    rig.publication.committed(count)
    rest = [
        "result_service.reached",
        "quiesce.advanced",
        "committer.reached",
        "early.groups_changed",
        "bounded.advanced",
    ]
    assert rig.calls == [*first, *rest, "trees.watermark_soon"]


def test_readers_reach_nothing_while_the_log_is_not_complete() -> None:
    rig = Rig()
    reached: list[int] = []
    rig.result_service = Noted("result_service", rig.calls, reached=reached.append)
    rig.publication.committed(1)
    rig.closer.behind = True
    rig.publication.committed(1)
    assert reached == [7, FIRST]


@pytest.mark.parametrize("leading", [True, False])
def test_a_master_that_still_leads_publishes_when_the_log_is_complete(leading: bool) -> None:
    rig = Rig()
    asked: dict[str, tuple[Any, ...]] = {}
    rig.copy.reach = lambda *args: asked.update(reach=args)
    rig.copy.settle = lambda *args: asked.update(settle=args)
    rig.copy.mending.settle = lambda then: then()
    cell = RegisterCell(VALUE)
    sources = (other(5), *(contact for contact in cell.contacts if contact.id != rig.context.me.id))
    rig.publication.catch_up(Won(TERMS, cell, cast(Proposer, None), (other(5),)))
    index, asked_of, reached, wanted = asked["reach"]
    assert (index, asked_of, wanted(), rig.closer.behind) == (VALUE.before, sources, True, True)
    reached()
    tail, asked_of, caught_up, _ = asked["settle"]
    assert (tail, asked_of) == (cell.tail, sources)
    rig.leading = leading
    caught_up()
    assert rig.closer.behind is not leading
    assert ("closer.publish" in rig.calls) is leading


def test_lost_intervals_are_declared_in_one_record() -> None:
    rig = Rig()
    declared: list[Any] = []
    rig.copy.mending.lead = declared.append
    rig.publication.catch_up(Won(TERMS, RegisterCell(VALUE), cast(Proposer, None)))
    [(record, rows)] = decode_page(declared[0](1000, 1003))
    assert (record.index, record.first, record.state, rows) == (1002, 1000, "SKIPPED", b"")
    assert (record.start_us, record.end_us) == rig.plan.window(1002)


def test_what_the_closer_asks_for_reaches_the_part_that_does_it() -> None:
    rig = Rig()
    record = ResultRecord(job="shop/top", index=7)
    rig.publication.close_ready()
    rig.publication.commit(record, b"")
    rig.publication.keep_pages(7, (b"a", b"b"))
    rig.publication.shown()
    rig.publication.hasten(9)
    rig.publication.recollect(7, 9, 0, 1)
    rig.publication.evicted()
    rig.publication.deposed(ChangeRefused("another leads", None))
    assert rig.calls == [
        "closer.advance",
        "committer.add",
        "pages.keep",
        "pages.keep",
        "result_service.shown",
        "trees.hasten",
        "trees.recollect",
        "changed",
        "deposed",
    ]


def test_new_members_begin_above_an_interval_that_the_other_sites_have_closed() -> None:
    rig = Rig()
    rig.publication.adopted(ResultRecord(job="shop/top", index=7))
    assert rig.calls == ["closer.adopt", "collection.passed"]


def test_the_grant_is_ended_once_however_often_an_interval_needs_the_master() -> None:
    rig = Rig()
    waiting: list[Callable[[], None]] = []
    rig.committer.without_grant = waiting.append
    rig.publication.end_grant()
    rig.publication.end_grant()
    (ended,) = waiting
    ended()
    assert rig.calls == ["closer.advance"]


@pytest.mark.parametrize(("more", "votes"), [({}, True), ({"rev": 2}, False), ({"state": "SKIPPED"}, False)])
def test_the_master_votes_on_the_records_that_every_site_makes(more: dict[str, Any], votes: bool) -> None:
    rig = Rig()
    assert rig.publication.vote(ResultRecord(job="shop/top", index=7, **more), b"") is votes


def test_the_sites_that_vote_learn_which_ballot_is_chosen_with_records() -> None:
    rig, ballot = Rig(), Ballot(4, b"a" * 20, 1)
    me = rig.context.me
    rig.terms = replace(TERMS, layout=PathLayout("region", (), (me, other(5), other(6))))
    rig.proposer.chosen = ballot
    rig.publication.committed(0)
    assert rig.context.out == []
    rig.publication.committed(1)
    sent = [(each.to, each.message) for each in rig.context.out if isinstance(each, Send)]
    assert sent == [(to, Chosen(MANIFEST.job_id, ballot)) for to in (other(5), other(6))]
