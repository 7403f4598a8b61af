"""Acceptors and proposers one at a time: durable votes, what is refused."""

from __future__ import annotations

import random
from typing import Any

import pytest
from msgspec.structs import replace

from elfmesh.control.consensus.rules import NONE, Ballot
from elfmesh.control.context import Context
from elfmesh.control.election.election import TAKE_OVER_S, Elections
from elfmesh.control.jobs.manifest import new_manifest
from elfmesh.control.jobs.pages import encode_page
from elfmesh.control.jobs.plan import read_job
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.register_value import (
    Cell,
    Close,
    Create,
    Delete,
    Exchange,
    Refused,
    RegisterValue,
    TakeOver,
    digest,
)
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import Append, Persist
from elfmesh.control.protocol.messages_register import (
    Accept,
    Accepted,
    Conflict,
    Prepare,
    Promised,
)
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.control.register.acceptor import Acceptors
from elfmesh.control.register.outcome import Lost, Won
from elfmesh.control.register.proposer import Proposer
from elfmesh.control.register.registers import Registers
from elfmesh.control.register.reports import plan_of
from elfmesh.control.replicas.job_replica import FETCH_S, JobReplica, LogCopy
from elfmesh.errors import ProtocolError
from elfmesh.machine import Contact, Effect, Message, Send
from tests.control.member.support import TEXT

MANIFEST = new_manifest(read_job(TEXT)[0], TEXT, "local", created=1, incarnation="i")
JOB = MANIFEST.job_id
ME, A, B, STRANGER = (Contact(bytes([n]) * 20, "sim", n) for n in (1, 2, 3, 9))
VALUE = RegisterValue(job=JOB, incarnation="i", version=1, plan=b"p", epoch=1, master=A, acceptors=(ME, A, B))
TERMS = Terms(manifest=MANIFEST, master=A, epoch=1)


class Held:
    """What one agent holds of the job."""

    def __init__(self, context: Context, latest: int | None = None, terms: Terms | None = TERMS) -> None:
        self.terms, self.copy = terms, LogCopy(context, JOB, "i", latest, lambda: ())

    def held(self, job: bytes) -> tuple[Terms | None, LogCopy | None]:
        return self.terms, self.copy

    def epoch(self, job: bytes) -> int:
        return 0

    def admits(self, job: bytes, epoch: int, sender: Contact | None) -> bool:
        return True

    def keep(self, terms: Terms, roster: int = 0) -> None:
        self.terms = terms


def context() -> Context:
    return Context(ME, "me", random.Random(1), lambda topic: {})


def tail(*indices: int) -> bytes:
    return encode_page([(ResultRecord(job="shop/top", index=index), b"") for index in indices])


def with_tail(value: RegisterValue, before: int | None, *indices: int) -> tuple[RegisterValue, bytes]:
    page = tail(*indices)
    changed = replace(value, before=before, latest=indices[-1], closed=indices[-1] + 1, digest=digest(page))
    return changed, page


def sent(effects: list[Effect]) -> list[Message]:
    return [effect.message for effect in effects if isinstance(effect, Send)]


def run(own_registers: Context, until: float) -> None:
    """Let time pass."""
    while own_registers.deadline is not None and own_registers.deadline <= until:
        own_registers.now = own_registers.deadline
        own_registers.fire()
    own_registers.now = until


def test_a_vote_is_on_disk_before_it_is_answered_and_binds_after_a_restart() -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers))
    acceptors.prepare(A, Prepare(JOB, Ballot(5, A.id)))
    *_, promised = own_registers.out
    assert sent([promised]) == [Promised(JOB, Ballot(5, A.id), NONE, None, TERMS, None, votes=1)]
    own_registers.out.clear()
    acceptors.accept(A, Accept(JOB, Ballot(5, A.id), VALUE), b"")
    persisted, counted, accepted = own_registers.out
    assert isinstance(persisted, Persist)
    assert isinstance(counted, Persist)
    assert sent([accepted]) == [Accepted(JOB, Ballot(5, A.id), votes=2)]
    again = context()
    restarted = Acceptors(again, Held(again))
    restarted.restored(JOB, persisted.data)
    restarted.counted(counted.data)
    restarted.prepare(B, Prepare(JOB, Ballot(6, A.id)))
    (promised_again,) = sent(again.out)
    assert promised_again == Promised(JOB, Ballot(6, A.id), Ballot(5, A.id), VALUE, TERMS, None, votes=2)
    again.out.clear()
    restarted.accept(B, Accept(JOB, Ballot(4, B.id), replace(VALUE, master=B)), b"")
    assert sent(again.out) == [Conflict(JOB, Ballot(4, B.id), Ballot(6, A.id))]
    assert restarted.vote(JOB).value == Cell(VALUE)


def test_a_vote_that_cannot_be_read_is_not_voted_over() -> None:
    own_registers = context()
    with pytest.raises(ProtocolError, match="cannot be read"):
        Acceptors(own_registers, Held(own_registers)).restored(JOB, b"\xc1 nonsense")


@pytest.mark.parametrize(
    ("latest", "terms"),
    [(6, TERMS), (None, TERMS), (7, None), (7, replace(TERMS, version=2))],
    ids=["a record is missing", "all are missing", "no terms", "an old roster"],
)
def test_an_acceptor_that_could_not_help_a_successor_does_not_vote(
    latest: int | None, terms: Terms | None
) -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers, latest, terms))
    value, page = with_tail(replace(VALUE, roster=3), 7, 8, 9)
    acceptors.accept(A, Accept(JOB, Ballot(5, A.id), value), page)
    assert acceptors.vote(JOB).value is None
    assert Conflict(JOB, Ballot(5, A.id), NONE, behind=True) in sent(own_registers.out)
    assert not any(isinstance(effect, Persist) for effect in own_registers.out)
    acceptors.accept(A, Accept(JOB, Ballot(5, A.id), value, terms=replace(TERMS, version=3)), page)
    assert (acceptors.vote(JOB).value is not None) == (latest == 7)


def test_a_tail_goes_to_the_log_once_its_value_is_known_to_be_chosen() -> None:
    own_registers = context()
    held = Held(own_registers, 7)
    acceptors = Acceptors(own_registers, held)
    first, page = with_tail(VALUE, 7, 8, 9)
    second, following = with_tail(first, 9, 10)
    acceptors.accept(A, Accept(JOB, Ballot(5, A.id), first), page)
    assert not any(isinstance(effect, Append) for effect in own_registers.out)
    acceptors.accept(A, Accept(JOB, Ballot(6, A.id), second, settled=Ballot(4, A.id)), following)
    assert held.copy.latest == 7, "another value was chosen"
    acceptors.accept(A, Accept(JOB, Ballot(6, A.id), second, settled=Ballot(5, A.id)), following)
    kinds = [type(effect).__name__ for effect in own_registers.out if not isinstance(effect, Send)]
    assert held.copy.latest == 9
    assert kinds[2:] == ["Append", "Append", "Persist", "Persist"], (
        "the records before the vote replaces them"
    )


def test_a_record_of_an_epoch_that_is_over_is_not_appended() -> None:
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    for index, epoch in ((1, 2), (2, 1), (3, 2), (3, 3)):
        copy.add(ResultRecord(job="shop/top", index=index, epoch=epoch), b"")
    assert [effect.record.index for effect in own_registers.out if isinstance(effect, Append)] == [1, 3]
    assert own_registers.stats["control.fenced"] == 1


CHANGES: list[tuple[Any, dict[str, Any], str]] = [
    (Create(replace(VALUE, incarnation="other")), {}, "exists"),
    (Create(VALUE), {"deleted": True}, "over"),
    (TakeOver("i", B, 3), {}, "another took over"),
    (TakeOver("other", B, 1), {}, "over"),
    (TakeOver("i", B, 1), {"deleted": True}, "over"),
    (Close("i", 2, 0, 1, None, 0, tail(0)), {}, "another epoch"),
    (Close("i", 1, 0, 9, 7, 8, tail(8)), {"latest": 6}, "another interval"),
    (Close("other", 1, 0, 1, None, 0, tail(0)), {}, "over"),
    (Delete("i", 4), {}, "another epoch"),
    (Exchange("i", 1, comes=STRANGER), {"former": (ME, A)}, "changing"),
    (Exchange("i", 1, comes=A), {}, "already"),
    (Exchange("i", 2, comes=STRANGER), {}, "another epoch"),
]


@pytest.mark.parametrize(("change", "fields", "reason"), CHANGES)
def test_every_change_compares_before_it_sets(change: Any, fields: dict[str, Any], reason: str) -> None:
    with pytest.raises(Refused, match=reason):
        change.apply(Cell(replace(VALUE, **fields)), certain=True)


def test_a_change_that_is_found_to_be_made_is_not_made_twice() -> None:
    found = Cell(VALUE)
    for change in (TakeOver("i", B, 1), Close("i", 2, 4, 9, None, 8, tail(8)), Delete("i", 2)):
        once = change.apply(found, certain=False)
        assert once != found
        assert change.apply(once, certain=False) == once
        found = once
    assert Create(replace(VALUE, incarnation="j")).apply(found, certain=False).value.epoch == 3


def test_a_round_does_not_wait_for_the_dead_while_a_majority_is_there() -> None:
    """One has promised a higher ballot to somebody who is gone, one is gone: the round can only be lost."""
    own_registers = context()
    outcomes: list[Cell | Refused] = []
    proposer = Proposer(own_registers, JOB, (ME, A, B), 7)
    proposer.submit(Create(VALUE), outcomes.append, TERMS)
    first = Ballot(1, ME.id, 7)
    proposer.promised(ME, Promised(JOB, first, NONE, None, None, None), b"")
    proposer.refused(A, Conflict(JOB, first, Ballot(5, STRANGER.id)))
    own_registers.out.clear()
    run(own_registers, 5.0)
    asked = [message for message in sent(own_registers.out) if isinstance(message, Prepare)]
    assert asked[-1].ballot.counter > 5
    for sender in (ME, A):
        proposer.promised(sender, Promised(JOB, asked[-1].ballot, NONE, None, None, None), b"")
        proposer.accepted(sender, Accepted(JOB, asked[-1].ballot))
    proposer.accepted(ME, Accepted(JOB, asked[-1].ballot))
    assert outcomes == [Cell(VALUE)]


def test_what_an_acceptor_lacks_it_fetches_from_others_than_the_candidate_too() -> None:
    own_registers = context()
    acceptors = Acceptors(own_registers, Held(own_registers, 6))
    value, page = with_tail(VALUE, 7, 8)
    acceptors.accept(STRANGER, Accept(JOB, Ballot(5, STRANGER.id), value, sources=(B,)), page)
    run(own_registers, 20.0)
    asked = [
        effect.to.id
        for effect in own_registers.out
        if isinstance(effect, Send) and isinstance(effect.message, Fetch)
    ]
    assert asked == [B.id, STRANGER.id, A.id], "each once, until the vote is wanted again"


def test_a_copy_asks_its_next_source_when_one_is_silent_and_tells_all_who_wait() -> None:
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    done: list[str] = []
    copy.complete(A, lambda: done.append("first"))
    copy.complete(B, lambda: done.append("second"))
    run(own_registers, FETCH_S[0])
    *_, last = (effect for effect in own_registers.out if isinstance(effect, Send))
    assert last.to == B
    assert isinstance(last.message, Fetch)
    copy.page(B, Page(JOB, "i", last.message.token, done=True), tail(1, 2))
    assert copy.latest == 2
    assert done == [], "the silent one may have more"
    run(own_registers, 2 * sum(FETCH_S))
    assert done == ["first", "second"]
    assert not copy.fetching


def test_terms_of_the_roster_in_force_are_taken_under_a_newer_epoch() -> None:
    """Who has only heard of a new master would stay behind for ever."""
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    received = replace(TERMS, epoch=4, master=B, version=5)
    job_replica = JobReplica(own_registers, received, copy)
    known = replace(TERMS, epoch=3, master=A, version=6)
    job_replica.keep(known)
    assert job_replica.terms == received
    job_replica.keep(known, roster=6)
    assert job_replica.terms == replace(known, epoch=4, master=B)
    job_replica.keep(replace(known, version=7), roster=6)
    assert job_replica.terms.version == 6, "an older master's roster that the register has not named"


def test_a_new_term_without_a_majority_is_given_up_and_may_be_tried_again() -> None:
    own_registers = context()
    elections = Elections(own_registers, Registers(own_registers, Held(own_registers)), lambda job: 1)
    outcomes: list[Won | Lost] = []
    terms = replace(TERMS, acceptors=(ME, A, B))
    for attempt in (1, 2):
        elections.take_over(terms, outcomes.append)
        assert elections.is_running(JOB)
        run(own_registers, own_registers.now + TAKE_OVER_S)
        assert len(outcomes) == attempt
        assert isinstance(outcomes[-1], Lost)
        assert outcomes[-1].open
        assert not elections.is_running(JOB)


@pytest.mark.parametrize("held", ["the newer version", "its older roster", "a change never chosen", ""])
def test_who_finds_another_master_takes_only_the_terms_that_the_register_names(held: str) -> None:
    """A newer epoch over an older version: by such terms members would begin that version again."""
    second, third = (replace(MANIFEST, version=version) for version in (2, 3))
    newer = replace(TERMS, manifest=second, epoch=7, version=6, effective=9, evaluated=2)
    notified = {
        "the newer version": newer,
        "its older roster": replace(newer, version=4),
        "a change never chosen": replace(newer, manifest=third, older=newer.stages, evaluated=3),
        "": None,
    }[held]
    own_registers = context()
    registers = Registers(own_registers, Held(own_registers))
    outcomes: list[Won | Lost] = []
    own = replace(TERMS, epoch=2, version=3, acceptors=(ME, A, B))
    Elections(own_registers, registers, lambda job: 2).take_over(own, outcomes.append)
    value = replace(VALUE, version=2, plan=plan_of(newer), epoch=8, master=B, roster=5)
    (ballot,) = {message.ballot for message in sent(own_registers.out) if isinstance(message, Prepare)}
    for voter, terms in ((A, notified), (B, None)):
        registers.on_promised(voter, Promised(JOB, ballot, Ballot(1), value, terms, None), b"")
    (lost,) = outcomes
    assert isinstance(lost, Lost)
    assert not lost.open
    named = replace(newer, epoch=8, master=B)
    assert lost.terms == (named if notified is not None and notified.version >= value.roster else None)


def test_an_even_number_of_voters_is_misuse() -> None:
    own_registers = context()
    with pytest.raises(ValueError, match="odd"):
        Registers(own_registers, Held(own_registers), 4)
