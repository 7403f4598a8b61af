"""A version comes into force for all members at one interval, or it changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.records import FIRST, ResultRecord
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.jobs.stages import STAGES_MAX
from elfmesh.control.jobs.terms import Rollout, Stage, Terms
from elfmesh.control.master.rollout import (
    AHEAD,
    DRAIN_S,
    ERROR_SHARE_MAX,
    JUDGED_RECORDS_MIN,
    REHEARSE_S,
    ChangingTerm,
    Rollouts,
)
from elfmesh.control.master.wanted_version import WantedVersion
from elfmesh.control.protocol.messages import Ask, pack
from elfmesh.control.protocol.messages_versions import Rehearsed
from elfmesh.control.register.changes import Advance, ChangeRefused
from tests.control.master.stub_term import StubTerm, entry, other
from tests.control.register.support import JOB, MANIFEST, TERMS, VALUE

CLIENT = other(5)
FRONTIER = 20
"""One past the highest interval that the master knows to be sealed."""


class ChangingStub(StubTerm):
    """A term whose version may change; the test calls what is in `drained` when no interval is in flight."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.context.roots[JOB] = None
        self.closer = SimpleNamespace(next=FRONTIER - 2)
        self.collection = SimpleNamespace(frontier=FRONTIER)
        self.tally = SimpleNamespace(unusable_share=lambda version: 0.25)
        self.drained: list[Callable[[], None]] = []
        self.quiesce = SimpleNamespace(
            handing_over=False, freeze=self.drained.append, thaw=lambda: self.reports.append("thaw")
        )
        self.committer = SimpleNamespace(without_grant=lambda then: then())
        self.promises: list[Terms] = []
        self.versions: list[tuple[Terms, float]] = []

    def promise(self, terms: Terms) -> None:
        self.promises.append(terms)

    def swap(self, terms: Terms, cell: RegisterCell, wanted: WantedVersion, prepared_at: float) -> None:
        self.versions.append((terms, prepared_at))


def changing(**terms: Any) -> tuple[ChangingStub, Rollouts]:
    term = ChangingStub(began=replace(TERMS, start=1, closed=10, effective=1, **terms))
    return term, Rollouts(cast(ChangingTerm, term), term.swap)


def wanted(text: str = MANIFEST.text + " LIMIT 3", **more: Any) -> WantedVersion:
    return WantedVersion(replace(MANIFEST, text=text, version=2), "keep", CLIENT, 70, 0.0, **more)


def rehearsed(
    number: int, frontier: int | None, *, takes_part: bool = True, error: str = ""
) -> tuple[bytes, bytes]:
    agent = entry(number).contact.id
    return agent, pack(Rehearsed(agent, frontier, takes_part, error))


def prepare(term: ChangingStub, rollouts: Rollouts, *answers: tuple[bytes, bytes], **more: Any) -> None:
    """The members have checked a version, and nothing is in flight."""
    rollouts.begin(wanted(**more))
    term.done(*answers)
    term.drained.pop()()


def test_a_version_begins_above_the_highest_interval_that_a_member_has_sealed() -> None:
    term, rollouts = changing()
    rollouts.begin(wanted())
    assert [each.timeout_s for each in term.published()] == [REHEARSE_S]
    term.run(1.0)
    term.done(rehearsed(0, FRONTIER + 5), rehearsed(1, None), (b"", b"damaged"))
    assert (term.promises, term.register.submitted) == ([], []), "intervals are in flight"
    term.run(1.0)
    term.drained.pop()()
    first = FRONTIER + 5 + AHEAD
    [terms] = term.promises
    assert (terms.effective, terms.version, terms.manifest.version) == (first, 4, 2)
    assert terms.older == (Stage(1, MANIFEST, 1),)
    assert terms.evaluated == 1, "only the end of the query has changed"
    [(change, decided)] = term.register.submitted
    assert isinstance(change, Advance)
    decided(RegisterCell(replace(VALUE, epoch=2)))
    [(began, prepared_at)] = term.versions
    assert (began.epoch, began.acceptors, prepared_at) == (2, VALUE.acceptors, 1.0)
    assert (rollouts.running, term.answers()) == (None, []), "the next term answers the client"
    term.run(DRAIN_S)
    assert "thaw" not in term.reports


@pytest.mark.parametrize(
    ("more", "start", "first"),
    [({"soon": True}, 1, FRONTIER - 2), ({}, FRONTIER + 9, FRONTIER + 9), ({}, 1, FRONTIER + AHEAD)],
)
def test_the_first_interval_of_a_version(more: dict[str, Any], start: int, first: int) -> None:
    term, rollouts = changing()
    term.began = replace(term.began, start=start)
    prepare(term, rollouts, rehearsed(0, FRONTIER), **more)
    assert term.promises[0].effective == first


def test_a_member_that_does_not_take_part_is_expected_up_to_the_first_interval() -> None:
    term, rollouts = changing()
    prepare(term, rollouts, rehearsed(0, FRONTIER, takes_part=False), rehearsed(1, FRONTIER))
    assert term.promises[0].members == (entry(0, until=FRONTIER + AHEAD), entry(1))


def test_a_version_that_a_member_cannot_evaluate_changes_nothing() -> None:
    term, rollouts = changing()
    rollouts.begin(wanted())
    term.done(rehearsed(0, FRONTIER), rehearsed(1, FRONTIER, error="no column hits"))
    [(status, body)] = term.answers()
    assert status == 400
    assert "m1: no column hits" in str(body)
    assert str(body["hint"]).endswith("Version 1 continues.")
    assert (rollouts.running, term.promises, term.reports) == (None, [], ["thaw"])


def test_a_change_is_given_up_when_the_intervals_in_flight_take_too_long() -> None:
    term, rollouts = changing()
    rollouts.begin(wanted())
    term.done(rehearsed(0, FRONTIER))
    term.run(DRAIN_S)
    [(status, body)] = term.answers()
    assert (status, body["code"]) == (503, 69)
    assert (rollouts.running, term.reports) == (None, ["thaw"])


def test_a_change_that_was_given_up_while_a_grant_ended_closes_nothing_down() -> None:
    term, rollouts = changing()
    waiting: list[Callable[[], None]] = []
    term.committer.without_grant = waiting.append
    rollouts.begin(wanted())
    term.done(rehearsed(0, FRONTIER))
    term.run(DRAIN_S)
    assert rollouts.running is None
    waiting.pop()()
    assert term.drained == []


@pytest.mark.parametrize("rooted", [True, False])
def test_a_job_that_is_handed_over_gets_no_version(rooted: bool) -> None:
    term, rollouts = changing()
    term.quiesce.handing_over = rooted
    if not rooted:
        term.context.roots.clear()
    rollouts.begin(wanted())
    if rooted:
        term.done(rehearsed(0, FRONTIER))
    term.run(1.0)
    assert [status for status, _ in term.answers()] == [503]
    assert term.promises == []


def test_a_master_whose_change_the_register_refuses_is_deposed() -> None:
    refused: list[str] = []
    term, rollouts = changing()
    prepare(term, rollouts, rehearsed(0, FRONTIER), refused=lambda: refused.append("refused"))
    term.register.submitted[0][1](ChangeRefused("another leads", None))
    assert (term.reports, refused, term.versions) == (["deposed"], ["refused"], [])
    assert [status for status, _ in term.answers()] == [503]


def test_the_end_of_a_term_refuses_the_change_and_lets_the_next_requests_go_on() -> None:
    term, rollouts = changing()
    prepare(term, rollouts, rehearsed(0, FRONTIER))
    called: list[int] = []
    for number in (1, 1, 2):
        rollouts.later(Ask("undo", JOB, b"{}", CLIENT, number), partial(called.append, number))
    assert called == []
    rollouts.stop()
    assert ([status for status, _ in term.answers()], called) == ([503], [1, 2])
    term.register.submitted[0][1](RegisterCell(VALUE))
    assert term.versions == []


def test_versions_whose_intervals_are_open_are_bounded() -> None:
    older = tuple(Stage(10 + number, MANIFEST, 1) for number in range(STAGES_MAX - 1))
    term, rollouts = changing()
    term.began = replace(term.began, older=older, effective=40, closed=FIRST)
    rollouts.begin(wanted())
    assert [status for status, _ in term.answers()] == [409]
    assert term.published() == []


def record(bad: int, used: int, version: int = 2) -> ResultRecord:
    return ResultRecord(
        job="shop/top", index=30, version=version, counts={"contributed": used, "parse_error": bad}
    )


def judged(**rollout: Any) -> tuple[ChangingStub, Rollouts]:
    last: dict[str, Any] = {"version": 2, "replaces": 1, "state": "keep", "effective": 25}
    last |= {"bound": ERROR_SHARE_MAX, **rollout}
    newest = replace(MANIFEST, version=2, text=MANIFEST.text + " LIMIT 3")
    return changing(manifest=newest, older=(Stage(1, MANIFEST, 1),), rollout=Rollout(**last))


def test_a_version_with_too_many_unusable_records_is_taken_back_once() -> None:
    term, rollouts = judged()
    rollouts.published(record(5, JUDGED_RECORDS_MIN - 6))
    assert term.published() == [], "too few records for a judgement"
    rollouts.published(record(1, 0))
    running = rollouts.running
    assert running is not None
    assert (running.manifest.version, running.manifest.text, running.origin) == (3, MANIFEST.text, None)
    assert "30 % of the records of version 2" in running.halted
    assert running.soon
    term.done(rehearsed(0, FRONTIER, error="broken"))
    rollouts.published(record(100, 0))
    assert (rollouts.running, term.answers()) == (None, [])


@pytest.mark.parametrize(
    ("rollout", "bad", "version"),
    [({}, 1, 2), ({}, 50, 1), ({"halted": "it was taken back"}, 50, 2), ({"bound": 0.9}, 50, 2)],
)
def test_other_records_take_no_version_back(rollout: dict[str, Any], bad: int, version: int) -> None:
    _, rollouts = judged(**rollout)
    rollouts.published(record(bad, 50, version))
    assert rollouts.running is None
