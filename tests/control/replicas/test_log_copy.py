"""What an agent holds of other masters' jobs."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.protocol.events import Append
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.control.replicas.job_replica import JobReplica
from elfmesh.control.replicas.log_copy import FETCH_S, LogCopy
from elfmesh.machine import Send
from tests.control.register.support import (
    JOB,
    TERMS,
    A,
    B,
    context,
    run,
    tail,
)


def test_a_record_of_an_epoch_that_is_over_is_not_appended() -> None:
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    for index, epoch in ((1, 2), (2, 1), (3, 2), (3, 3)):
        copy.add(ResultRecord(job="shop/top", index=index, epoch=epoch), b"")
    assert [effect.record.index for effect in own_registers.out if isinstance(effect, Append)] == [1, 3]
    assert own_registers.stats["control.fenced"] == 1


def test_a_copy_asks_its_next_source_when_one_is_silent_and_notifies_all_that_wait() -> None:
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    done: list[str] = []
    copy.complete(A, lambda: done.append("first"))
    copy.complete(B, lambda: done.append("second"))
    run(own_registers, FETCH_S[0])
    *_, last = (effect for effect in own_registers.out if isinstance(effect, Send))
    assert last.to == B
    assert isinstance(last.message, Fetch)
    copy.on_page(B, Page(JOB, "i", last.message.token, done=True), tail(1, 2))
    assert copy.latest == 2
    assert done == [], "the silent one may have more"
    run(own_registers, 2 * sum(FETCH_S))
    assert done == ["first", "second"]
    assert not copy.fetching


def test_a_copy_that_reaches_the_record_it_needs_does_not_wait_for_a_silent_source() -> None:
    """The silent one is often the master before, whose death is why the copy is completed."""
    own_registers = context()
    copy = LogCopy(own_registers, JOB, "i", None, lambda: ())
    done: list[str] = []
    copy.reach(2, (A, B), lambda: done.append("there"), lambda: True)
    run(own_registers, FETCH_S[0])
    *_, last = (effect for effect in own_registers.out if isinstance(effect, Send))
    assert isinstance(last.message, Fetch)
    copy.on_page(B, Page(JOB, "i", last.message.token, done=True), tail(1, 2))
    run(own_registers, FETCH_S[0] + 0.1)
    assert (done, copy.fetching) == (["there"], False)


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
