"""What becomes of an interval that lacks members: probes, their answers, progress and the clock."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from elfmesh.control.closing.stores.partial_store import PartialStore
from elfmesh.control.closing.straggler_policy import (
    GONE_S,
    HORIZON_S,
    PROBE_AGAIN_S,
    PROBES_MAX,
    RESTART_S,
    StragglerPolicy,
)
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.terms import RosterEntry
from elfmesh.machine import Contact
from elfmesh.overlay.events import Probe, ProbeDone
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.messages import Segment, SegmentEntry
from tests.control.contexts import new_context
from tests.control.member.support import agent_id

A, B = 1, 2
DEADLINE_S = 4.0
DUE = 100.0
OVER = DUE + DEADLINE_S


@dataclass
class Missing:
    """A policy, the members that an interval lacks since `DUE`, and what their probes answer.

    Attributes:
        missing: bit set of the members.
        frontiers: first interval that lacks each member.
    """

    missing: int = A
    on_straggler: str = "wait"
    horizon_s: float | None = None
    members: int = 2
    frontiers: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.context = new_context(9)
        entries = (
            RosterEntry(number, Contact(agent_id(number), "sim", number, 1), f"web{number}")
            for number in range(self.members)
        )
        self.decisions = 0
        self.policy = StragglerPolicy(
            self.context,
            RosterBook(tuple(entries), 1),
            self.on_straggler,
            DEADLINE_S,
            self.count,
            horizon_s=self.horizon_s,
        )

    def count(self) -> None:
        """The policy asks for a new decision."""
        self.decisions += 1

    def look(self, at: float) -> tuple[str | None, float]:
        """What becomes of the interval at a time."""
        self.context.now = at
        return self.policy.decide(self.missing, DUE, lambda number: self.frontiers.get(number, 0))

    def probed(self) -> list[int]:
        """Numbers of the members with a probe under way."""
        return [effect.contact.port for effect in self.context.out if isinstance(effect, Probe)]

    def answer(self, at: float, *dead: int) -> None:
        """Answer every probe under way: all members live but the dead ones."""
        self.context.now = at
        probes = [effect for effect in self.context.out if isinstance(effect, Probe)]
        self.context.out.clear()
        for probe in probes:
            alive = probe.contact.port not in dead
            self.context.answer(probe.token, ProbeDone(probe.token, probe.contact, alive))


@pytest.mark.parametrize("on_straggler", ["wait", "skip"])
def test_before_the_deadline_the_policy_decides_nothing(on_straggler: str) -> None:
    interval = Missing(on_straggler=on_straggler)
    lead_s = interval.policy.lead_s
    assert interval.look(DUE) == (None, OVER - lead_s)
    assert interval.probed() == []
    looked = OVER - lead_s
    assert interval.look(looked) == (None, OVER if lead_s else OVER + 1.0)
    assert interval.probed() == [0], "the answer is there when the deadline is over"


@pytest.mark.parametrize(
    ("on_straggler", "horizon_s", "closed_at"),
    [("wait", None, OVER + GONE_S), ("wait", 2.0, OVER + 2.0), ("skip", None, OVER), ("skip", 2.0, OVER)],
)
def test_a_dead_member_is_missing_after_the_time_that_a_restart_takes(
    on_straggler: str, horizon_s: float | None, closed_at: float
) -> None:
    interval = Missing(on_straggler=on_straggler, horizon_s=horizon_s)
    interval.look(OVER - interval.policy.lead_s)
    interval.answer(OVER - interval.policy.lead_s, 0)
    assert interval.policy.dead == (0,)
    assert interval.decisions == 1
    assert interval.look(closed_at - 0.01) == (None, closed_at if closed_at > OVER else OVER)
    assert interval.look(closed_at) == ("FINAL_PARTIAL", closed_at)


@pytest.mark.parametrize(
    ("on_straggler", "horizon_s", "at", "outcome"),
    [
        ("wait", None, OVER + 10, None),
        ("wait", None, DUE + HORIZON_S - 0.01, None),
        ("wait", None, DUE + HORIZON_S + 10, "FINAL_PARTIAL"),
        ("wait", 8.0, OVER + 7.99, None),
        ("wait", 8.0, OVER + 8.0, "FINAL_PARTIAL"),
        ("skip", None, OVER, "SKIPPED"),
        ("skip", 8.0, OVER, "SKIPPED"),
    ],
)
def test_a_living_member_is_waited_for_as_the_job_declares(
    on_straggler: str, horizon_s: float | None, at: float, outcome: str | None
) -> None:
    interval = Missing(on_straggler=on_straggler, horizon_s=horizon_s)
    for moment in (OVER - interval.policy.lead_s, OVER - 0.01):
        interval.look(moment)
        interval.answer(moment)
    second = OVER
    while second < at:
        state, again = interval.look(second)
        assert state is None or (on_straggler, outcome) == ("wait", "FINAL_PARTIAL")
        assert state is not None or second < again <= second + 1.0
        interval.answer(second)
        second += 1.0
    assert interval.look(at)[0] == outcome


def test_progress_starts_the_horizon_again_but_not_the_bound_of_the_job() -> None:
    free, bound = Missing(), Missing(horizon_s=8.0)
    for interval in (free, bound):
        for second in range(int(HORIZON_S)):
            interval.frontiers[0] = second
            interval.look(OVER + second)
            interval.answer(OVER + second)
    assert free.look(OVER + HORIZON_S)[0] is None, "the member moves on"
    assert bound.look(OVER + HORIZON_S)[0] == "FINAL_PARTIAL", "whichever member makes progress"


def test_without_an_answer_no_member_is_dead_and_no_interval_is_skipped() -> None:
    interval = Missing(on_straggler="skip")
    assert interval.look(OVER)[0] is None
    assert interval.policy.dead == ()
    assert interval.look(OVER + 2 * HORIZON_S)[0] is None
    interval.answer(OVER + 2 * HORIZON_S)
    assert interval.look(OVER + 2 * HORIZON_S)[0] == "SKIPPED"


def test_an_interval_waits_for_the_living_among_the_dead() -> None:
    interval = Missing(missing=A | B)
    interval.look(OVER)
    assert interval.probed() == [0, 1]
    interval.answer(OVER, 1)
    assert interval.look(OVER + GONE_S)[0] is None
    assert interval.policy.dead_since(1) == OVER
    assert interval.policy.dead_since(0) is None


def test_an_answer_is_believed_for_a_while_and_then_asked_for_again() -> None:
    interval = Missing()
    interval.look(OVER)
    interval.answer(OVER)
    interval.look(OVER + PROBE_AGAIN_S - 0.01)
    assert interval.probed() == []
    interval.look(OVER + PROBE_AGAIN_S)
    assert interval.probed() == [0]


def test_a_dead_rack_is_probed_a_part_at_a_time() -> None:
    members = PROBES_MAX + 6
    interval = Missing(missing=(1 << members) - 1, members=members)
    interval.look(OVER)
    assert interval.probed() == list(range(PROBES_MAX))
    interval.answer(OVER + 1, *range(PROBES_MAX))
    assert interval.probed() == list(range(PROBES_MAX, members))
    interval.answer(OVER + 2, *range(members))
    assert interval.policy.dead == tuple(range(members))


@pytest.mark.parametrize("evicted", [False, True])
def test_a_member_that_shows_itself_is_dead_no_more(evicted: bool) -> None:
    interval = Missing()
    interval.look(OVER)
    interval.answer(OVER, 0)
    if evicted:
        interval.policy.revive(0)
        assert interval.probed() == []
    else:
        interval.policy.seen(A)
        assert interval.probed() == [0], "what came may have been sent before it died"
    assert interval.policy.dead == ()


def test_a_member_that_only_an_older_collection_has_is_lost_where_the_dead_are_in_no_newer_one() -> None:
    def segment(mask: int, attempt: int) -> Segment:
        return Segment(1, attempt, 0, 10, bitmap_of(mask), (SegmentEntry(4, (1, 0, 0, 0, 0), 1),))

    interval = Missing(members=4)
    tree = PartialStore(0)
    tree.add(segment(0b011, 0), (b"x",))
    tree.add(segment(0b110, 1), (b"y",))
    assert interval.policy.lost(0b111, 4, [tree]) == 0, (
        "0 lives: the second collection may have it any moment"
    )
    interval.look(OVER)
    interval.answer(OVER, 0)
    assert interval.policy.lost(0b111, 4, [tree]) == 0b001
    assert interval.policy.lost(0b1111, 4, [tree]) == 0, "3 lives, and is in neither"
    tree.add(segment(0b001, 1), (b"y",))
    assert interval.policy.lost(0b111, 4, [tree]) == 0, "no member is lacking"


def test_a_member_that_is_excluded_is_not_waited_for_beyond_the_time_of_a_dead_one() -> None:
    lacking = Missing()
    lacking.policy.excludes(0)
    lacking.policy.excludes(0)
    assert lacking.policy.dead == (0,)
    assert lacking.look(OVER + GONE_S)[0] == "FINAL_PARTIAL"


def test_a_dead_member_has_its_time_to_return_once_although_its_death_is_known_after_later_intervals() -> (
    None
):
    """Else each interval that has ended before the answer of the probe would wait for a second of its own."""
    interval = Missing(members=1)
    interval.look(OVER)
    interval.answer(OVER + 0.5, 0)
    later = DUE + 1.0
    interval.context.now = OVER + GONE_S
    assert interval.policy.decide(A, later, lambda number: 0) == ("FINAL_PARTIAL", OVER + GONE_S)
    interval.policy.seen(A)
    interval.answer(OVER + 1.5, 0)
    waits = later + DEADLINE_S + GONE_S
    assert interval.policy.decide(A, later, lambda number: 0) == (None, waits), "it was here in between"


def test_a_pause_of_the_job_is_no_absence_of_its_members() -> None:
    interval = Missing(members=1)
    interval.look(OVER)
    interval.policy.resumed()
    resumed = OVER + 0.2
    interval.answer(OVER + 0.5, 0)
    assert interval.policy.decide(A, resumed, lambda number: 0) == (None, resumed + DEADLINE_S)


def test_a_member_is_dead_since_the_overlay_has_lost_it() -> None:
    interval = Missing(members=1)
    interval.context.now = DUE - 1.0
    interval.context.lost(agent_id(0))
    interval.context.now = DUE
    interval.policy.suspect(0)
    interval.answer(DUE + 0.5, 0)
    assert interval.policy.dead_since(0) == DUE - 1.0
    over = DUE - 1.0 + DEADLINE_S + GONE_S
    assert interval.look(over - 0.01) == (None, over)
    assert interval.look(over) == ("FINAL_PARTIAL", over)


@pytest.mark.parametrize(
    ("on_straggler", "horizon_s", "leaves", "waits_s"),
    [
        ("wait", None, False, DEADLINE_S + RESTART_S),
        ("wait", None, True, DEADLINE_S + GONE_S),
        ("wait", 2.0, False, DEADLINE_S + 2.0),
        ("skip", None, False, DEADLINE_S),
    ],
)
def test_a_stopped_member_has_the_time_of_a_restart(
    on_straggler: str, horizon_s: float | None, leaves: bool, waits_s: float
) -> None:
    interval = Missing(on_straggler=on_straggler, horizon_s=horizon_s, members=1)
    if leaves:
        interval.policy._book.evict(0, 1000)
    interval.context.now = DUE
    interval.context.lost(agent_id(0), stopped=True)
    interval.policy.suspect(0)
    interval.answer(DUE + 0.5, 0)
    assert interval.look(DUE + waits_s - 0.01) == (None, DUE + waits_s)
    assert interval.look(DUE + waits_s) == ("FINAL_PARTIAL", DUE + waits_s)
    interval.policy.revive(0)
    interval.context.now += 60.0
    interval.policy.suspect(0)
    interval.answer(interval.context.now, 0)
    assert interval.policy._return_s(0) == interval.policy._gone_s, "it has returned since, and crashed"
