"""When the intervals of a job with members end, how, and which of them leave a record."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.decisions import OVERFULL, Decision
from elfmesh.control.closing.eviction import EVICT_S
from elfmesh.control.closing.member_intervals import MemberIntervals
from elfmesh.control.closing.ports import Closing
from elfmesh.control.closing.revisions import WAIT_S
from elfmesh.control.closing.stores.partial_store import HELD_BYTES_MAX
from elfmesh.control.jobs.records import FIRST, ResultRecord, State
from elfmesh.control.jobs.terms import Participant
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.control.replicas.direct_requests import PULL_S_MAX
from tests.control.closing.rig import START, ClosingRig
from tests.control.contexts import new_context
from tests.control.member.support import SESSIONS, TEXT

BOTH = 0b11
DEADLINE_S = 1.0
DUE = 100.0
OVER = DUE + DEADLINE_S
WAIT = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER WAIT")
CORRECT = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER CORRECT")
SKIP = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER SKIP")
IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")
OTHER = TEXT.replace("GROUP BY", "WHERE product <> 'x' GROUP BY")


class Rig(ClosingRig):
    """The intervals of a job, asked by hand."""

    def __init__(
        self, text: str = TEXT, members: int = 2, *, of_older: tuple[tuple[int, str], ...] = ()
    ) -> None:
        effective = START + 2 if of_older else FIRST
        super().__init__(text, members, older=of_older, effective=effective)
        self.source = MemberIntervals(self.term, self.collection)
        self.context.now = DUE

    def decide(self, at: int = START, *, paused: bool = False) -> Decision | None:
        return self.source.decide(at, paused=paused)

    def late(self, now: float, *dead: int) -> Decision | None:
        """What is decided of the first interval, with the answers to the probes that it needs."""
        self.context.now = now
        decision = self.decide()
        self.answer_probes(*dead)
        return decision


def test_without_any_contribution_nothing_is_decided() -> None:
    rig = Rig()
    assert rig.decide() is None
    rig.context.now = 1000.0
    assert rig.decide() is None, "no member was seen beyond the interval, so that it is not due"


def test_an_interval_with_all_its_members_ends_at_once() -> None:
    rig = Rig()
    rig.contribute(BOTH, b"x")
    assert rig.decide() == Decision(START, START + 1, True, BOTH)


def test_a_run_of_intervals_without_records_ends_without_a_record() -> None:
    rig = Rig()
    rig.contribute(BOTH, None, stop=START + 10)
    assert rig.decide() == Decision(START, START + 10, False, BOTH)


def test_a_run_ends_with_the_first_interval_that_has_records() -> None:
    rig = Rig()
    rig.contribute(BOTH, None, stop=START + 3)
    rig.contribute(BOTH, b"x", START + 3)
    rig.contribute(BOTH, b"x", START + 4)
    assert rig.decide() == Decision(START, START + 4, True, BOTH)


def test_a_run_ends_where_the_roster_changes() -> None:
    rig = Rig()
    rig.contribute(BOTH, None, stop=START + 10)
    rig.book.evict(1, START + 4)
    assert rig.decide() == Decision(START, START + 4, False, BOTH)
    assert rig.decide(START + 4) == Decision(START + 4, START + 10, False, 0b01)


def test_a_run_ends_where_another_version_begins() -> None:
    rig = Rig(OTHER, of_older=((START - 5, TEXT),))
    rig.contribute(BOTH, None, stop=START + 10)
    assert rig.decide() == Decision(START, START + 2, False, BOTH)
    assert rig.decide(START + 2) == Decision(START + 2, START + 10, False, BOTH)


def test_a_run_ends_where_other_contributions_fail() -> None:
    rig = Rig()
    rig.contribute(BOTH, None, stop=START + 10)
    rig.collection.failed.add(START + 3, START + 5, 0b10, "it is torn")
    assert rig.decide() == Decision(START, START + 3, False, BOTH)
    run = Decision(START + 3, START + 5, True, BOTH, 0b10, "FINAL_PARTIAL", since=START + 3, outside=0b10)
    assert rig.decide(START + 3) == run


def test_intervals_that_expect_no_member_end_where_one_is_expected() -> None:
    rig = Rig(members=1)
    rig.book.evict(0, START)
    assert rig.decide() is None, "it is not known when one will be"
    newcomer = new_context(5)
    rig.book.add((Participant(newcomer.me, newcomer.name),), START + 6)
    assert rig.decide() == Decision(START, START + 6, False, outside=0b11)
    assert rig.decide(START + 6) is None


def test_a_missing_member_is_waited_for_and_then_named_in_the_record_of_the_run() -> None:
    rig = Rig()
    rig.contribute(0b01, None, stop=START + 3)
    rig.kill(1)
    assert rig.late(OVER) is None
    assert rig.late(OVER + 0.99) is None
    partial = Decision(START, START + 3, True, BOTH, 0b10, "FINAL_PARTIAL", since=START, outside=0b10)
    assert rig.late(OVER + 1.0) == partial


def test_a_run_with_a_missing_member_ends_at_what_was_seen_of_the_others() -> None:
    """Of what no member has sealed no member is late."""
    rig = Rig()
    rig.contribute(0b01, b"x")
    rig.kill(1)
    decision = rig.late(OVER + 1.0)
    assert decision is not None
    assert (decision.stop, decision.since) == (START + 1, None)


def test_a_run_of_which_nothing_has_arrived_ends_where_a_member_reports_that_it_has_sealed() -> None:
    rig = Rig()
    rig.collection.reported(1, START + 3)
    for number in range(2):
        rig.kill(number)
    decision = rig.late(OVER + 1.0)
    assert decision is not None
    assert (decision.stop, decision.since, decision.missing) == (START + 3, START, BOTH)


def test_a_paused_job_gives_up_no_member() -> None:
    rig = Rig(SKIP)
    rig.contribute(0b01, b"x")
    resumed = OVER + 100.0
    rig.context.now = resumed
    assert rig.decide(paused=True) is None
    assert rig.answer_probes() == [], "it is not asked after either"
    rig.source.resumed()
    assert rig.late(resumed + DEADLINE_S - 0.76) is None, "the pause is the delay of no member"
    assert rig.answer_probes() == []
    assert rig.late(resumed + DEADLINE_S - 0.75) is None
    assert rig.late(resumed + DEADLINE_S) is not None


def test_a_paused_job_ends_what_has_all_its_members() -> None:
    rig = Rig()
    rig.contribute(BOTH, b"x")
    assert rig.decide(paused=True) == Decision(START, START + 1, True, BOTH)


def test_a_job_that_skips_skips_what_lacks_a_living_member() -> None:
    rig = Rig(SKIP)
    rig.contribute(0b01, b"x")
    assert rig.late(OVER - 0.75) is None
    assert rig.late(OVER) == Decision(START, START + 1, True, BOTH, 0b10, "SKIPPED", outside=0b10)


def test_a_waiting_interval_has_the_master_look_again() -> None:
    rig = Rig()
    rig.contribute(0b01, b"x")
    assert rig.decide() is None
    before = rig.decisions
    rig.wait(OVER - PULL_S_MAX - 0.01)
    assert rig.decisions == before
    rig.wait(OVER)
    assert rig.decisions == before + 1
    rig.source.stop()
    rig.wait(OVER + 100.0)
    assert rig.decisions == before + 1


def test_too_much_that_is_held_ends_the_wait_and_people_learn_why() -> None:
    rig = Rig()
    rig.contribute(0b01, b"x")
    rig.collection.trees[0].copies[0].nbytes = HELD_BYTES_MAX + 1
    rig.context.now = OVER
    decision = rig.decide()
    assert decision is not None
    assert (decision.state, decision.missing) == ("FINAL_PARTIAL", 0b10)
    assert list(rig.term.errors) == [OVERFULL]


def test_an_interval_waits_for_a_revision_inside_a_merge_but_not_for_ever() -> None:
    rig = Rig()
    rig.contribute(BOTH, b"x")
    rig.contribute(0b01, b"y", rev=2)
    assert rig.decide() is None
    rig.context.now = DUE + WAIT_S
    assert rig.decide() == Decision(START, START + 1, True, BOTH)


def test_intervals_before_one_that_waits_end() -> None:
    rig = Rig()
    rig.contribute(BOTH, None, stop=START + 3)
    rig.contribute(BOTH, b"x", START + 3)
    rig.contribute(0b01, b"y", START + 3, rev=2)
    assert rig.decide() == Decision(START, START + 3, False, BOTH)
    assert rig.decide(START + 3) is None


def test_a_skipped_interval_waits_for_no_revision() -> None:
    rig = Rig(SKIP, members=3)
    rig.contribute(BOTH, b"x")
    rig.contribute(0b01, b"y", rev=2)
    rig.late(OVER - 0.75)
    decision = rig.late(OVER)
    assert decision is not None
    assert decision.state == "SKIPPED"


def test_a_torn_member_is_named_once_the_others_have_been_collected_alone() -> None:
    rig = Rig(IN_TWO_TREES)
    rig.contribute(BOTH, b"x")
    rig.contribute(BOTH, None, tree=1)
    rig.collection.trees[1].fail(START, START + 1, 0b10)
    rig.collection.failed.add(START, START + 1, 0b10, "it is torn")
    assert rig.decide() is None
    rig.context.now = DUE + WAIT_S
    decision = rig.decide()
    assert decision is not None
    assert (decision.torn, decision.missing, decision.state) == (0b10, 0b10, "FINAL_PARTIAL")


def test_open_sessions_give_an_interval_without_records_a_record() -> None:
    rig = Rig(SESSIONS)
    record = ResultRecord(job="j", index=START - 1, start_us=0)
    rig.contribute(BOTH, None, stop=START + 5)
    assert rig.decide() == Decision(START, START + 5, False, BOTH)
    rig.term.open_groups.made(Closing(record, None), Finalised(b"j" * 20, 3, START - 1, b"", open=b"one"))
    decision = rig.decide()
    assert decision == Decision(START, START + 1, True, BOTH)
    _, order = rig.source.make(decision, 1)
    assert isinstance(order, Finalise)
    assert order.parts == ((),), "the rows are those of the sessions that end"


@pytest.mark.parametrize(
    ("state", "payload", "ordered"),
    [("FINAL", b"x", True), ("FINAL", b"", False), ("SKIPPED", b"x", False), ("FINAL_PARTIAL", b"x", True)],
)
def test_rows_are_ordered_where_a_record_has_any(state: State, payload: bytes, ordered: bool) -> None:
    rig = Rig()
    rig.contribute(BOTH, payload)
    decision = Decision(START, START + 1, True, BOTH, 0, state)
    record, order = rig.source.make(decision, 4)
    assert (record.state, record.rev) == (state, 4)
    assert isinstance(order, Finalise) == ordered


@pytest.mark.parametrize(
    ("text", "shows", "ordered"), [(CORRECT, True, 1), (CORRECT, False, 0), (WAIT, True, 0)]
)
def test_only_a_job_that_corrects_shows_what_waits(text: str, shows: bool, ordered: int) -> None:
    rig = Rig(text)
    rig.contribute(0b01, b"x")
    rig.context.now = OVER
    rig.source.wait(START, shows=shows)
    assert len(rig.orders()) == ordered


def test_a_dead_member_is_evicted_while_intervals_wait_and_the_master_is_notified_once() -> None:
    rig = Rig()
    rig.contribute(0b01, b"x")
    rig.kill(1)
    rig.source.wait(START, shows=False)
    rig.contribute(0b01, b"x", START + 50)
    rig.context.now = DUE + EVICT_S
    for _ in range(2):
        rig.source.wait(START + 50, shows=False)
    assert rig.evictions == 1
    assert rig.book.required(START + 50) == 0b01


def test_what_is_decided_is_forgotten() -> None:
    rig = Rig()
    rig.contribute(BOTH, b"x")
    rig.contribute(BOTH, b"x", START + 1)
    rig.source.decided(START + 1)
    assert rig.collection.trees[0].nbytes == 1
    assert rig.decide(START + 1) == Decision(START + 1, START + 2, True, BOTH)


def test_it_is_noted_once_that_an_interval_waits() -> None:
    rig = Rig()
    rig.contribute(0b01, b"x")
    rig.contribute(0b01, b"x", START + 1)
    for _ in range(3):
        rig.decide()
    steps = rig.context.causes.of([rig.manifest.job_id], START)
    assert [(step.kind, step.detail) for step in steps] == [("due", "1 of 2 agents are not in")]
