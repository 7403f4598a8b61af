"""The query for the newest terms of a job: its receivers, the answers that count, and its end."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.messages_succession import Inquire, Known
from elfmesh.control.replicas.terms_query import AGAIN_S, ALL_NEAR, ANSWER_S, NEIGHBOURS, Answers, TermsQuery
from elfmesh.machine import Contact, Send
from elfmesh.overlay.events import Lookup, LookupDone
from tests.control.register.support import JOB, ME, STRANGER, TERMS, VALUE, context, run

NEAR = tuple(Contact(bytes([20 + number]) * 20, "sim", number) for number in range(ALL_NEAR))
ENDED = replace(VALUE, deleted=True)


class Rig:
    """The inquiries of the agent `ME`, which knows some terms itself."""

    def __init__(self, own: Terms | None = None) -> None:
        self.context = context()
        self.query = TermsQuery(self.context, lambda job: (own, None))
        self.informed: list[tuple[bytes, Terms | None, tuple[bytes, ...]]] = []
        self.answers: list[tuple[Terms | None, Answers]] = []
        self.token = 0

    def ask(self, *extra: Contact) -> None:
        self.query.ask(JOB, extra, lambda *informed: self.informed.append(informed))

    def ask_all(self, *extra: Contact) -> None:
        self.query.ask_all(JOB, extra, lambda terms, answers: self.answers.append((terms, answers)))

    def find(self, *contacts: Contact) -> list[Contact]:
        """Answer the look-up of the job with these agents, and return the receivers of the query."""
        (lookup,) = [effect for effect in self.context.out if isinstance(effect, Lookup)]
        self.context.out.clear()
        self.context.answer(lookup.token, LookupDone(lookup.token, JOB, contacts))
        return self.asked()

    def asked(self) -> list[Contact]:
        sent = [effect for effect in self.context.out if isinstance(effect, Send)]
        self.context.out = [effect for effect in self.context.out if not isinstance(effect, Send)]
        for each in sent:
            assert isinstance(each.message, Inquire)
            self.token = each.message.token
        return [each.to for each in sent]

    def answer(
        self, sender: Contact, terms: Terms | None = None, *, leads: bool = False, **fields: object
    ) -> None:
        known = Known(JOB, self.token, terms, None, leads)
        self.query.on_known(sender, replace(known, **fields))


def terms(epoch: int, version: int = 0) -> Terms:
    return replace(TERMS, epoch=epoch, version=version)


def test_a_query_asks_the_nearest_agents_and_those_that_it_is_given() -> None:
    rig = Rig()
    rig.ask(STRANGER, NEAR[0])
    assert rig.find(ME, *NEAR) == [STRANGER, *NEAR[:NEIGHBOURS]]


def test_a_query_of_all_asks_every_agent_near() -> None:
    rig = Rig()
    rig.ask_all()
    assert rig.find(*NEAR, ME) == list(NEAR)


def test_a_query_does_not_ask_agents_that_the_overlay_has_lost() -> None:
    rig = Rig()
    rig.context.lost(NEAR[0].id)
    rig.ask(NEAR[0])
    assert rig.find(*NEAR) == list(NEAR[1:NEIGHBOURS])


def test_a_query_ends_when_all_have_answered_with_the_newest_terms_and_those_that_do_not_lead() -> None:
    rig = Rig()
    rig.ask()
    rig.find(*NEAR)
    rig.answer(NEAR[0], terms(2))
    rig.answer(NEAR[1], None, leads=True)
    assert rig.informed == []
    rig.answer(NEAR[2], terms(3))
    assert rig.informed == [(JOB, terms(3), (NEAR[0].id, NEAR[2].id))]
    run(rig.context, 100.0)
    assert len(rig.informed) == 1


@pytest.mark.parametrize(
    ("own", "answered", "newest"),
    [
        (None, [None], None),
        (terms(2), [None], terms(2)),
        (terms(2, 9), [terms(3)], terms(3)),
        (terms(3, 1), [terms(3, 2)], terms(3, 2)),
        (terms(3, 2), [terms(3, 1), terms(2, 9)], terms(3, 2)),
    ],
)
def test_the_newest_terms_are_those_of_the_highest_epoch_and_version(
    own: Terms | None, answered: list[Terms | None], newest: Terms | None
) -> None:
    rig = Rig(own)
    rig.ask()
    rig.find(*NEAR[: len(answered)])
    for sender, reported in zip(NEAR, answered, strict=False):
        rig.answer(sender, reported)
    assert [each for _, each, _ in rig.informed] == [newest]


def test_silent_agents_are_asked_once_more_and_then_given_up() -> None:
    rig = Rig()
    rig.ask()
    rig.find(*NEAR)
    rig.answer(NEAR[0], terms(2))
    run(rig.context, AGAIN_S)
    assert rig.asked() == list(NEAR[1:NEIGHBOURS])
    run(rig.context, ANSWER_S - 0.01)
    assert (rig.asked(), rig.informed) == ([], [])
    run(rig.context, ANSWER_S)
    assert rig.informed == [(JOB, terms(2), (NEAR[0].id,))]
    rig.answer(NEAR[1], terms(9))
    assert len(rig.informed) == 1


@pytest.mark.parametrize("found", [(), (ME,)])
def test_a_query_without_an_agent_to_ask_ends_with_the_own_terms(found: tuple[Contact, ...]) -> None:
    rig = Rig(terms(4))
    rig.ask()
    assert rig.find(*found) == []
    assert rig.informed == [(JOB, terms(4), ())]


def test_a_query_whose_look_up_fails_asks_those_that_it_is_given() -> None:
    rig = Rig()
    rig.ask(STRANGER)
    rig.context.out.clear()
    run(rig.context, 15.0)
    assert rig.asked() == [STRANGER]


def test_an_agent_that_the_overlay_loses_meanwhile_is_not_waited_for() -> None:
    rig = Rig()
    rig.ask()
    rig.find(*NEAR[:2])
    rig.query.lost(STRANGER.id)
    rig.answer(NEAR[0], terms(2))
    rig.query.lost(NEAR[1].id)
    assert rig.informed == [(JOB, terms(2), (NEAR[0].id,))]


def test_only_the_agents_that_are_asked_count_and_each_once() -> None:
    rig = Rig()
    rig.ask()
    rig.find(*NEAR[:2])
    rig.answer(STRANGER, terms(9))
    rig.answer(NEAR[0], terms(2))
    rig.answer(NEAR[0], terms(8))
    rig.answer(NEAR[1], terms(7), token=rig.token + 1)
    assert rig.informed == []
    rig.answer(NEAR[1])
    assert rig.informed == [(JOB, terms(2), (NEAR[0].id, NEAR[1].id))]


def test_terms_and_ends_of_another_job_are_not_believed() -> None:
    other = replace(TERMS, manifest=replace(TERMS.manifest, job_id=b"o" * 20))
    rig = Rig()
    rig.ask_all()
    rig.find(*NEAR[:3])
    rig.answer(NEAR[0], other, ended=replace(ENDED, job=b"o" * 20))
    rig.answer(NEAR[1], ended=VALUE)
    rig.answer(NEAR[2], ended=ENDED)
    ((newest, answers),) = rig.answers
    assert newest is None
    assert answers == Answers({each.id: each for each in NEAR[:3]}, (ENDED,))


def test_questions_about_one_job_share_a_query() -> None:
    rig = Rig()
    rig.ask()
    rig.ask()
    rig.find(NEAR[0])
    rig.answer(NEAR[0], terms(2))
    assert len(rig.informed) == 2
    rig.ask()
    assert rig.find(NEAR[0]) == [NEAR[0]], "a later question is another inquiry"


def test_a_question_to_all_waits_for_a_smaller_query_and_then_asks_all() -> None:
    rig = Rig()
    rig.ask()
    rig.ask_all()
    rig.find(*NEAR)
    for each in NEAR[:NEIGHBOURS]:
        rig.answer(each)
    assert (len(rig.informed), rig.answers) == (1, [])
    assert len(rig.find(*NEAR)) == ALL_NEAR
    rig.ask_all()
    for each in NEAR:
        rig.answer(each)
    assert len(rig.answers) == 2, "both share the larger one"


def test_agents_that_have_lost_their_votes_are_known_until_they_report_otherwise() -> None:
    rig = Rig()
    rig.ask()
    rig.find(*NEAR[:2])
    rig.answer(NEAR[0], lost_votes=True)
    rig.answer(NEAR[1])
    assert list(rig.query.lost_votes) == [NEAR[0].id]
    rig.ask()
    rig.find(NEAR[0])
    rig.answer(NEAR[0])
    assert list(rig.query.lost_votes) == []
