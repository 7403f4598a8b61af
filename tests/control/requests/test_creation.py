"""How a job begins at an agent: what is asked of the register, and what the client learns."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from elfmesh.control.answers import AGAIN, CONFLICT, NOT_FOUND, OK, UNAVAILABLE, read_answer
from elfmesh.control.election.leadership import Leadership
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import RegisterCell, RegisterValue
from elfmesh.control.jobs.terms import Numbering
from elfmesh.control.master.master import Master
from elfmesh.control.protocol.messages import HOPS_MAX, Answered, Submit
from elfmesh.control.register.changes import Create, Look
from elfmesh.control.register.outcome import Lost
from elfmesh.control.requests.creation import (
    ANSWERED_MAX,
    ANSWERED_S,
    LEAD_AGAIN_S,
    RESET_S,
    Creation,
)
from elfmesh.control.requests.precondition import LOOK, Seen
from elfmesh.machine import Contact, Send
from tests.control.contexts import new_context
from tests.control.register.support import JOB, MANIFEST, TERMS, VALUE, A, B, run

CLIENT = A
Kind = Callable[[RegisterValue], Create]


class Rig:
    """The creation of jobs at one agent, with a leadership that a test answers for."""

    def __init__(self, leader: Contact | None = None, over: str = "") -> None:
        self.context = new_context(1)
        self.known, self.last_over = leader, over
        self.busy: dict[bytes, list[Submit]] = {}
        self.passed_on: list[tuple[Contact, Submit]] = []
        self.taken_again: list[Submit] = []
        self.begun: list[tuple[Manifest, int, tuple[Numbering, ...], Kind]] = []
        self.endings: list[Master] = []
        self.creation = Creation(
            self.context, cast(Leadership, self), self.busy, self._pass_on, self.taken_again.append
        )

    def _pass_on(self, leader: Contact, message: Submit) -> None:
        self.passed_on.append((leader, message))

    # -- what of a leadership is asked here ------------------------------------------------------------

    def leader(self, job: bytes) -> Contact | None:
        return self.known

    def over(self, job: bytes) -> str:
        return self.last_over

    def ended(self, master: Master) -> None:
        self.endings.append(master)

    def begin(
        self,
        manifest: Manifest,
        then: Callable[[Master | Lost], None],
        start: int,
        earlier: tuple[Numbering, ...],
        kind: Kind,
    ) -> None:
        self.begun.append((manifest, start, earlier, kind))
        self.then = then

    # -- what happens to it ----------------------------------------------------------------------------

    def submit(self, **fields: Any) -> Submit:
        message = replace(Submit(MANIFEST, CLIENT, 9), **fields)
        self.creation.create(message)
        return message

    def answer(self) -> tuple[int, dict[str, Any]]:
        """Status and body of what the client is answered."""
        (effect,) = [each for each in self.context.out if isinstance(each, Send)]
        self.context.out.clear()
        assert isinstance(effect.message, Answered)
        assert (effect.to, effect.message.token) == (CLIENT, 9)
        return effect.message.status, read_answer(effect.message, effect.payload)[0]

    def change(self) -> Create:
        """The change of the register that begins the job."""
        return self.begun[-1][3](VALUE)


def lost(value: RegisterValue | None = None, *, is_open: bool = False) -> Lost:
    return Lost("another leads it", None if value is None else RegisterCell(value), open=is_open)


def tag(incarnation: str = "", job: bytes = JOB) -> str:
    return str(Seen(job, incarnation))


def test_a_submission_of_a_client_that_has_seen_the_end_of_the_last_job_begins_the_next() -> None:
    rig = Rig()
    message = rig.submit(seen=tag("h"), start=7)
    assert rig.busy == {JOB: [message]}
    ((manifest, start, earlier, _),) = rig.begun
    assert (manifest, start, earlier) == (MANIFEST, 7, ())
    assert rig.change() == Create(VALUE, seen="h")


def test_a_submission_without_a_tag_begins_a_job_whatever_was_there() -> None:
    rig = Rig()
    rig.submit(seen="")
    assert rig.change() == Create(VALUE, seen=None)


def test_a_client_that_looks_learns_what_was_over_last_and_begins_nothing() -> None:
    rig = Rig()
    rig.submit(seen=LOOK)
    assert isinstance(rig.change(), Look)
    rig.then(lost(replace(VALUE, deleted=True, incarnation="h")))
    assert rig.answer() == (AGAIN, {"seen": tag("h")})
    rig.submit(seen=LOOK)
    rig.then(lost())
    assert rig.answer() == (AGAIN, {"seen": tag("")})


def test_a_look_that_the_register_has_not_answered_is_refused() -> None:
    rig = Rig()
    look = rig.submit(seen=LOOK)
    rig.then(lost(is_open=True))
    assert rig.answer()[0] == UNAVAILABLE
    assert not rig.creation.answers_again(look)


def test_a_copy_of_a_look_gets_the_same_answer_for_some_seconds() -> None:
    rig = Rig()
    look = rig.submit(seen=LOOK)
    assert not rig.creation.answers_again(look)
    rig.then(lost(replace(VALUE, deleted=True, incarnation="h")))
    first = rig.answer()
    assert rig.creation.answers_again(look)
    assert rig.answer() == first
    for another in (replace(look, token=10), replace(look, origin=B), replace(look, seen=tag("h"))):
        assert not rig.creation.answers_again(another)
    run(rig.context, ANSWERED_S)
    assert not rig.creation.answers_again(look), "a later look may find another job"


def test_the_answers_of_many_looks_are_bounded() -> None:
    rig = Rig()
    looks = []
    for token in range(ANSWERED_MAX + 1):
        looks.append(rig.submit(seen=LOOK, token=token))
        rig.then(lost())
    assert [rig.creation.answers_again(look) for look in (looks[0], looks[1], looks[-1])] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("fields", [{"seen": tag(job=b"o" * 20)}, {"seen": tag("h"), "update": True}])
def test_a_tag_of_another_job_or_of_one_that_should_run_is_outdated(fields: dict[str, Any]) -> None:
    rig = Rig(over="h")
    rig.submit(**fields)
    status, body = rig.answer()
    assert (status, body["seen"], body["outcome"]) == (CONFLICT, tag("h"), "unknown")
    assert (rig.begun, rig.busy) == ([], {})


@pytest.mark.parametrize(("leader", "status"), [(None, NOT_FOUND), (B, UNAVAILABLE)])
def test_an_update_begins_no_job(leader: Contact | None, status: int) -> None:
    rig = Rig(leader)
    rig.submit(update=True)
    assert rig.answer()[0] == status
    assert (rig.begun, rig.busy) == ([], {})


def test_a_dry_run_begins_no_job_and_reports_that_it_would() -> None:
    rig = Rig()
    rig.submit(dry_run=True)
    status, body = rig.answer()
    assert (status, body["state"], body["dry_run"], body["job"]) == (OK, "new", True, "shop/top")
    assert (rig.begun, rig.busy) == ([], {})


def test_a_job_that_another_agent_leads_by_now_is_passed_on_to_it() -> None:
    rig = Rig()
    message = rig.submit()
    rig.then(lost(VALUE))
    assert rig.passed_on == [(A, message)]
    assert rig.busy == {}


def test_a_job_that_this_agent_shall_lead_is_sought_again_a_little_later() -> None:
    rig = Rig()
    message = rig.submit()
    rig.then(lost(replace(VALUE, master=rig.context.me)))
    run(rig.context, LEAD_AGAIN_S - 0.01)
    assert rig.taken_again == []
    run(rig.context, LEAD_AGAIN_S)
    assert rig.taken_again == [replace(message, hops=1)]


@pytest.mark.parametrize(("value", "hops"), [(None, 0), (replace(VALUE, deleted=True), 0), (VALUE, HOPS_MAX)])
def test_a_job_that_did_not_begin_and_that_no_agent_leads_is_refused(
    value: RegisterValue | None, hops: int
) -> None:
    rig = Rig()
    rig.submit(hops=hops)
    rig.then(lost(value))
    status, body = rig.answer()
    assert (status, body["error"]) == (UNAVAILABLE, "another leads it")
    assert rig.passed_on == []


def test_what_arrives_meanwhile_is_taken_again_when_the_job_has_begun_or_not() -> None:
    rig = Rig()
    rig.submit()
    later = replace(Submit(MANIFEST, B, 3))
    rig.busy[JOB].append(later)
    rig.then(lost(VALUE))
    assert rig.taken_again == [later]


class Ending(Master):
    """A master whose end a test decides."""

    def __init__(self) -> None:
        self.then: Callable[[bool], None] = lambda over: None
        self.applied: list[tuple[Any, ...]] = []
        term = SimpleNamespace(
            job=JOB,
            manifest=MANIFEST,
            terms=TERMS,
            plan=read_plan(MANIFEST.text),
            activation=SimpleNamespace(applied=lambda *about: self.applied.append(about)),
            collection=SimpleNamespace(frontier=1004),
            end=self._end,
        )
        vars(self).update(copy=SimpleNamespace(first=1000, latest=1003), term=term)

    def _end(self, then: Callable[[bool], None], *, retire: bool = False) -> None:
        assert retire
        self.then = then


def test_a_job_that_begins_answers_its_client_through_its_master() -> None:
    rig = Rig()
    rig.submit()
    master = Ending()
    rig.then(master)
    assert master.applied == [(CLIENT, 9, "new")]


def reset(rig: Rig, text: str = MANIFEST.text) -> Ending:
    master = Ending()
    message = Submit(replace(MANIFEST, text=text, incarnation="j", created=5), CLIENT, 9)
    rig.creation.reset(master, message)
    assert rig.busy == {JOB: [message]}
    return master


@pytest.mark.parametrize(("width", "start"), [("'10", 1005), ("'30", 335)])
def test_a_text_with_another_numbering_begins_behind_what_members_have_sealed(width: str, start: int) -> None:
    rig = Rig()
    master = reset(rig, MANIFEST.text.replace("'10", width))
    master.then(True)
    assert rig.endings == [master]
    run(rig.context, RESET_S - 0.01)
    assert rig.begun == [], "inner agents forget the old trees first"
    run(rig.context, RESET_S)
    ((manifest, begins, earlier, kind),) = rig.begun
    assert (manifest.version, manifest.incarnation, begins) == (2, "j", start)
    assert earlier == (Numbering(incarnation="i", first=1000, latest=1003),)
    assert isinstance(kind, partial)
    assert kind(VALUE) == Create(VALUE, seen="i")


def test_a_job_of_which_nothing_is_sealed_begins_again_from_ever() -> None:
    rig = Rig()
    master = Ending()
    vars(master.term)["collection"] = SimpleNamespace(frontier=None)
    rig.creation.reset(master, Submit(replace(MANIFEST, incarnation="j"), CLIENT, 9))
    master.then(True)
    run(rig.context, RESET_S)
    assert rig.begun[0][1] == FIRST


def test_a_job_that_another_master_leads_does_not_begin_again_and_all_clients_are_answered() -> None:
    rig = Rig()
    master = reset(rig)
    rig.busy[JOB].append(Submit(MANIFEST, CLIENT, 10))
    master.then(False)
    sent = [each.message for each in rig.context.out if isinstance(each, Send)]
    assert [(each.token, each.status) for each in sent if isinstance(each, Answered)] == [
        (9, UNAVAILABLE),
        (10, UNAVAILABLE),
    ]
    run(rig.context, 10.0)
    assert (rig.begun, rig.busy, rig.endings) == ([], {}, [])
