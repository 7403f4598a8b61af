"""The rendezvous of a stream brings jobs and member hosts together, and remembers no job for ever."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh import ids
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.terms import Participant
from elfmesh.control.master.rendezvous import (
    ANSWER_JOBS_MAX,
    FORGET_S,
    UNSUBSCRIBED_S,
    VERDICTS_S,
    Rendezvous,
)
from elfmesh.control.protocol.messages import Announce, Announced, Running, Verdict, WhatRuns, Withdraw, pack
from elfmesh.srt.events import PublishDone
from tests.control.master.stub_term import StubTerm, other
from tests.control.register.support import JOB, MANIFEST
from tests.control.register.support import A as MASTER

CLICKS = ids.stream_id("clicks")
ASKER = other(9)
ANNOUNCE = Announce(MANIFEST, MASTER, 1, 0, 0, True, "clicks")


class Rig:
    """The rendezvous of the stream clicks."""

    def __init__(self, *, rooted: bool = True) -> None:
        self.term = StubTerm()
        self.context = self.term.context
        if rooted:
            self.context.roots[CLICKS] = None
        self.rendezvous = Rendezvous(self.context)

    def asked(self) -> list[bytes]:
        """The multicasts to the member hosts."""
        return [each.body for each in self.term.published()]

    def answer(self, *verdicts: bytes, expected: int) -> None:
        token = self.term.published()[-1].token
        answers = tuple((b"", verdict) for verdict in verdicts)
        self.context.answer(token, PublishDone(CLICKS, 1, answers, expected, token))

    def runs(self) -> tuple[Announce, ...]:
        self.term.take()
        self.rendezvous.on_what_runs(WhatRuns("clicks", ASKER))
        [(to, message)] = self.term.take()
        assert to == ASKER
        assert isinstance(message, Running)
        return message.jobs


def verdict(number: int, *, takes_part: bool = True, error: str = "") -> bytes:
    return pack(Verdict(Participant(other(number), f"m{number}"), takes_part, error))


def test_the_verdicts_of_the_member_hosts_go_to_the_master() -> None:
    rig = Rig()
    rig.rendezvous.on_announce(ANNOUNCE)
    assert rig.asked() == [pack(ANNOUNCE)]
    assert rig.term.published()[0].timeout_s == VERDICTS_S
    refused = verdict(12, takes_part=False, error="no column hits")
    rig.answer(verdict(10), refused, verdict(11, takes_part=False), b"damaged", expected=5)
    [(to, message)] = rig.term.take()
    assert to == MASTER
    taking = (Participant(other(10), "m10"),)
    assert message == Announced(JOB, 1, taking, ("m12: no column hits",), 5, "clicks")


def test_member_hosts_are_asked_once_unless_the_master_wants_their_verdicts_again() -> None:
    rig = Rig()
    reminder = replace(ANNOUNCE, wanted=False)
    for announce in (reminder, reminder, ANNOUNCE):
        rig.rendezvous.on_announce(announce)
    assert rig.asked() == [pack(reminder), pack(ANNOUNCE)]


def test_another_numbering_of_a_job_is_a_new_job() -> None:
    rig = Rig()
    rig.rendezvous.on_announce(ANNOUNCE)
    rig.rendezvous.on_announce(replace(ANNOUNCE, manifest=replace(MANIFEST, incarnation="j"), wanted=False))
    assert len(rig.asked()) == 2


@pytest.mark.parametrize(
    ("announce", "counter"),
    [
        (replace(ANNOUNCE, stream="other"), "control.malformed"),
        (replace(ANNOUNCE, manifest=replace(MANIFEST, text="no job")), "control.malformed"),
    ],
)
def test_an_announcement_that_does_not_read_the_stream_is_dropped(announce: Announce, counter: str) -> None:
    rig = Rig()
    rig.rendezvous.on_announce(announce)
    assert (rig.asked(), rig.runs(), rig.context.stats[counter]) == ([], (), 1)


def test_an_earlier_master_does_not_replace_a_later_one() -> None:
    rig = Rig()
    later = replace(ANNOUNCE, epoch=2)
    rig.rendezvous.on_announce(later)
    rig.rendezvous.on_announce(ANNOUNCE)
    assert (rig.runs(), rig.context.stats["control.fenced"]) == ((later,), 1)


@pytest.mark.parametrize("comes", [True, False])
def test_a_master_learns_that_a_stream_has_no_member_host(comes: bool) -> None:
    rig = Rig(rooted=False)
    rig.rendezvous.on_announce(ANNOUNCE)
    if comes:
        rig.context.roots[CLICKS] = None
        rig.rendezvous.rooted(CLICKS)
        assert len(rig.asked()) == 1
    rig.term.run(UNSUBSCRIBED_S)
    nothing = [] if comes else [(MASTER, Announced(JOB, 1, (), (), 0, "clicks"))]
    assert rig.term.take() == nothing


def test_the_next_rendezvous_receives_the_jobs_at_once() -> None:
    rig = Rig()
    rig.rendezvous.on_announce(replace(ANNOUNCE, wanted=False))
    rig.rendezvous.unrooted(ids.stream_id("other"))
    assert rig.term.routed() == []
    rig.rendezvous.unrooted(CLICKS)
    assert rig.term.routed() == [(CLICKS, ANNOUNCE)]


def test_a_job_that_is_not_announced_again_is_forgotten() -> None:
    rig = Rig()
    rig.rendezvous.on_announce(ANNOUNCE)
    rig.term.run(FORGET_S)
    assert rig.runs() == (ANNOUNCE,)
    rig.rendezvous.on_announce(ANNOUNCE)
    rig.term.run(FORGET_S + 1)
    assert rig.runs() == ()


def test_an_older_announcement_does_not_bring_back_a_job_that_was_withdrawn() -> None:
    rig = Rig()
    rig.rendezvous.on_announce(ANNOUNCE)
    rig.rendezvous.on_withdraw(Withdraw(JOB, "clicks", "older", 1))
    assert rig.runs() == (ANNOUNCE,)
    rig.rendezvous.on_withdraw(Withdraw(JOB, "clicks", "i", 1))
    rig.rendezvous.on_announce(ANNOUNCE)
    assert rig.runs() == ()


def test_one_answer_names_a_bounded_number_of_jobs() -> None:
    rig = Rig()
    for number in range(ANSWER_JOBS_MAX + 3):
        text = MANIFEST.text.replace("shop.top", f"shop.top{number}")
        manifest = new_manifest(read_job(text)[0], text, "local", created=1, incarnation="i")
        rig.rendezvous.on_announce(replace(ANNOUNCE, manifest=manifest))
    assert len(rig.runs()) == ANSWER_JOBS_MAX
