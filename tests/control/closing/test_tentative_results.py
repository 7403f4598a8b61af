"""Which open intervals are shown as they are, when, and in which revision."""

from __future__ import annotations

import pytest

from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.tentative import GAP_S, IN_FLIGHT_MAX, OPEN_MAX
from elfmesh.control.closing.tentative_results import order_tentative
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.srt.coverage import bitmap_of
from tests.control.closing.rig import START, ClosingRig, delta
from tests.control.member.support import SESSIONS, TEXT

DEADLINE_S = 1.0
DUE = 100.0
OVER = DUE + DEADLINE_S
CORRECT = TEXT.replace("DEADLINE '1 s'", "DEADLINE '1 s' ON STRAGGLER CORRECT")
IN_TWO_TREES = CORRECT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")
WITH_LATEST = """CREATE JOB shop.top EVERY '10 s' DEADLINE '1 s' ON STRAGGLER CORRECT AS
SELECT c.product, COUNT(*) AS hits FROM clicks c JOIN LATEST shop.names n ON c.product = n.product
GROUP BY c.product"""


class Rig(ClosingRig):
    """A job of three members, of whose first open intervals two members have contributed since `DUE`."""

    def __init__(self, text: str = CORRECT, intervals: int = 1) -> None:
        super().__init__(text, members=3)
        self.latest = SideInput(self.context, [self.manifest], self.close_ready)
        self.maker = RecordMaker(self.term, self.collection, self.latest)
        self.context.now = DUE
        for index in range(START, START + intervals):
            self.contribute(0b011, b"x", index)

    def show(self, at: float) -> list[tuple[int, int]]:
        """The (interval, revision) of the rows that are ordered."""
        self.context.now = at
        self.context.out.clear()
        self.order(START)
        return [(order.interval, order.rev) for order in self.orders()]

    def order(self, at: int) -> None:
        order_tentative(self.term, self.collection, self.latest, self.maker, at)

    def made(self, index: int = START, rev: int = 1) -> None:
        self.term.tentative.made(index, rev, b"rows")


def test_an_interval_is_shown_when_its_deadline_is_over() -> None:
    rig = Rig()
    assert rig.show(OVER - 0.01) == []
    before = rig.decisions
    rig.wait(OVER)
    assert rig.decisions > before, "the master looks again at the deadline"
    assert rig.show(OVER) == [(START, 1)]
    rig.made()
    ((record, rows),) = rig.term.tentative.since(0)
    assert (record.state, record.rev, rows) == ("TENTATIVE", 1, b"rows")
    assert (record.missing, record.agents_in, record.agents_expected) == (["m2"], 2, 3)
    assert record.absent == bitmap_of(0b100)


def lose(rig: Rig, number: int) -> None:
    rig.context.lost(rig.book.entries[number].contact.id)


def test_an_interval_with_a_prefix_of_each_lost_member_is_shown_before_its_deadline() -> None:
    rig = Rig()
    lose(rig, 2)
    assert rig.show(DUE) == [], "its standby has not answered"
    delta(rig, 2, 5)
    assert rig.show(DUE) == [(START, 1)]
    rig.made()
    ((record, _),) = rig.term.tentative.since(0)
    assert [each.agent for each in record.partly] == record.missing == ["m2"]


def test_a_prefix_of_a_living_member_makes_no_interval_shown_before_its_deadline() -> None:
    rig = Rig()
    delta(rig, 2, 5)
    assert rig.show(OVER - 0.01) == []
    assert rig.show(OVER) == [(START, 1)]


def test_an_interval_that_lacks_a_living_member_beside_a_lost_one_waits_for_its_deadline() -> None:
    rig = Rig(intervals=0)
    rig.contribute(0b001, b"x")
    lose(rig, 2)
    delta(rig, 2, 5)
    assert rig.show(OVER - 0.01) == []
    assert rig.show(OVER) == [(START, 1)]


def test_an_interval_is_shown_only_when_no_votes_can_close_it_as_its_first_revision() -> None:
    rig = Rig()
    rig.is_granted = True
    assert rig.show(OVER) == []
    assert rig.asked == [("end_grant",)]
    rig.is_granted = False
    assert rig.show(OVER) == [(START, 1)]


def test_an_interval_is_shown_again_when_more_is_inside_and_not_otherwise() -> None:
    rig = Rig()
    rig.show(OVER)
    rig.made()
    assert rig.show(OVER + 10) == []
    rig.contribute(0b100, b"z")
    assert rig.show(OVER + 10) == [(START, 2)]
    assert rig.show(OVER + 20) == [], "its rows are being made"


def test_a_revision_of_a_contribution_is_a_reason_to_show_an_interval_again() -> None:
    rig = Rig()
    rig.contribute(0b100, b"z")
    rig.show(OVER)
    rig.made()
    rig.contribute(0b100, b"Z", rev=2)
    assert rig.show(OVER + 10) == [(START, 2)]


def test_corrections_that_arrive_together_are_one() -> None:
    rig = Rig()
    rig.show(OVER)
    rig.made()
    rig.contribute(0b100, b"z")
    assert rig.show(OVER + GAP_S - 0.01) == []
    assert rig.show(OVER + GAP_S) == [(START, 2)]


def test_a_member_that_one_of_the_trees_lacks_is_not_inside() -> None:
    rig = Rig(IN_TWO_TREES)
    rig.contribute(0b001, b"x", tree=1)
    assert rig.show(OVER) == [(START, 1)]
    rig.made()
    ((record, _),) = rig.term.tentative.since(0)
    assert record.missing == ["m1", "m2"]


def test_an_interval_of_which_no_member_is_inside_is_not_shown() -> None:
    rig = Rig(IN_TWO_TREES)
    assert rig.show(OVER) == []


def test_intervals_without_records_are_passed_over() -> None:
    rig = Rig(intervals=0)
    rig.contribute(0b011, b"x", START + 3)
    assert rig.show(OVER) == [(START + 3, 1)]


def test_few_intervals_are_made_at_a_time() -> None:
    rig = Rig(intervals=IN_FLIGHT_MAX + 1)
    assert rig.show(OVER) == [(START + at, 1) for at in range(IN_FLIGHT_MAX)]
    assert rig.show(OVER) == []
    rig.made()
    assert rig.show(OVER) == [(START + IN_FLIGHT_MAX, 1)]


def test_no_more_intervals_are_shown_than_may_be_open() -> None:
    rig = Rig(intervals=OPEN_MAX + 1)
    shown = 0
    while orders := rig.show(OVER):
        shown += len(orders)
        for index, rev in orders:
            rig.made(index, rev)
    assert shown == OPEN_MAX


@pytest.mark.parametrize("text", [SESSIONS, WITH_LATEST], ids=["sessions", "another job is not read yet"])
def test_an_interval_whose_rows_cannot_be_made_yet_is_not_shown(text: str) -> None:
    assert Rig(text).show(OVER + 10) == []


def test_before_the_first_seal_there_is_nothing_to_show() -> None:
    rig = Rig(intervals=0)
    assert rig.show(OVER) == []
    assert rig.context.deadline is None


def test_what_a_member_has_sealed_last_is_shown_and_nothing_behind_it() -> None:
    rig = Rig()
    rig.context.now = OVER
    rig.order(START + 1)
    assert rig.orders() == []
