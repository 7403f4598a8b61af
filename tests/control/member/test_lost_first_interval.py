"""A roster that is lost gave a member another first interval than the next master does.

Where it was later, the records below it are counted as expired by then. They must not go up as well, and the
master must not take their intervals for complete. Where it was earlier, the records went up to a master that
closed nothing with them, and count as expired.
"""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from elfmesh.control.jobs.records import CONTRIBUTED, EXPIRED, FIRST, NOT_COUNTED
from elfmesh.srt.events import Contribute
from tests.control.member.member_boots import Boot, First

LATE = 20


def numbered_late_then_early(seed: int = 1) -> Boot:
    boot = Boot(First(seed), first=LATE)
    for _ in range(5):
        boot.seal(2)
    assert boot.member.ledger.state.pending_corrections[0] == 0
    assert sum(boot.member.ledger.state.pending_corrections) == 10, "expired, to go up with a later interval"
    boot.epoch, boot.place = 2, replace(boot.place, first=FIRST)
    return boot


def test_an_enrolment_names_the_interval_below_which_nothing_will_go_up() -> None:
    boot = numbered_late_then_early()
    assert boot.member.requests.enrolment().start == 5


def test_what_is_counted_as_expired_never_goes_up_nor_is_covered() -> None:
    boot = numbered_late_then_early()
    boot.tell_terms(at_once=False)
    boot.wait()
    covered = [
        (effect.segment.start, effect.segment.stop)
        for effect in boot.context.out
        if isinstance(effect, Contribute) and effect.segment.epoch == 2
    ]
    assert covered, "the member takes part"
    assert min(start for start, _ in covered) == 5


def test_the_corrections_go_up_with_the_next_interval_once() -> None:
    boot = numbered_late_then_early()
    boot.tell_terms()
    boot.seal(3)
    assert sum(sum(counts) for _, counts in boot.up.values()) == 13
    assert min(boot.up) == 5


def test_a_restart_remembers_below_which_interval_nothing_goes_up() -> None:
    boot = numbered_late_then_early()
    boot.start(begun=FIRST)
    assert boot.member.requests.enrolment().start == 5


STEPS = ("seal", "seal", "seal", "late", "late", "late", "close", "close", "watermark", "restart", "change")


def raised_first(seed: int) -> tuple[int, int]:
    """How many records stand in all buckets in the end, and how many were written.

    Now and then a master lacks the roster of its predecessor: it expects the member from a later interval on.
    """
    rng = random.Random(f"renumbered/{seed}")
    boot = Boot(rng)
    for _ in range(rng.randrange(10, 60)):
        step = rng.choice((*STEPS, "renumber", "found", "lower"))
        getattr(boot, step)(rng.randrange(3) if step != "close" else rng.choice((0, 1, 1)))
    return sum(boot.finish()) + sum(boot.member.ledger.state.pending_corrections), boot.written


@pytest.mark.parametrize("seed", range(100))
def test_each_record_of_a_member_whose_first_interval_is_raised_is_counted_once(seed: int) -> None:
    found, written = raised_first(seed)
    assert found == written


def test_a_number_that_starts_earlier_than_the_one_before_decides_from_there_on() -> None:
    """The member was evicted before its first interval, and its next master had seen less."""
    boot = Boot(First(1))
    boot.close(0)
    boot.renumber(4)
    boot.lower(3)
    for _ in range(6):
        boot.seal(2)
    boot.restart()
    for _ in range(6):
        boot.close(1)
    boot.restart()
    totals = boot.finish()
    assert (sum(totals), totals[EXPIRED]) == (boot.written, 2)


def test_what_was_refused_goes_up_again_although_the_next_term_begins_behind_it() -> None:
    """The worker began at an interval that only a lost roster names, so what lies before is open."""
    boot = Boot(First(1))
    boot.renumber(2)
    boot.restart()
    boot.found()
    boot.seal(2)
    assert not boot.up, "intervals 0 and 1 are open, and the worker says nothing of them"
    boot.renumber(2)
    boot.late(0)
    totals = boot.finish()
    assert (sum(totals), totals[EXPIRED]) == (boot.written, 5)


def test_what_no_record_can_have_is_open_until_its_interval_is_closed() -> None:
    """A change annuls it until then, and the worker reads its records again, and counts them as expired."""
    boot = Boot(First(1))
    for _ in range(2):
        boot.seal(2)
    boot.renumber(1)
    boot.restart()
    boot.watermark()
    boot.change(2)
    totals = boot.finish()
    assert (sum(totals), totals[EXPIRED]) == (boot.written, 2)


def _count_what_went_up(more: int, restarts: int) -> None:
    boot = Boot(First(1))
    for _ in range(5):
        boot.seal(2)
    boot.renumber(3)
    for _ in range(more):
        boot.seal(2)
    for _ in range(restarts):
        boot.restart()
    while boot.next() < boot.first:
        boot.seal(2)
    early = boot.written
    totals = boot.finish()
    assert (totals[CONTRIBUTED], totals[EXPIRED]) == (boot.written - early, early)


def test_what_went_up_before_a_roster_was_lost_is_counted_once() -> None:
    _count_what_went_up(more=1, restarts=0)


@pytest.mark.parametrize("restarts", [0, 1, 2])
@pytest.mark.parametrize("more", [0, 1, 3])
def test_a_restart_after_a_roster_was_lost_counts_the_same(more: int, restarts: int) -> None:
    _count_what_went_up(more, restarts)


def test_what_went_up_with_an_annulled_interval_is_pending_again_when_that_was_closed() -> None:
    """The worker does not make it again, because a restart begins behind it."""
    boot = Boot(First(1))
    for _ in range(2):
        boot.seal(2)
    boot.close(1)
    boot.close(0)
    boot.watermark()
    boot.seal(2)
    assert boot.up[2][1][EXPIRED] == 2, "what was left out of interval 1"
    boot.change(1, at_once=False)
    boot.published |= dict.fromkeys(range(2, 6), (0, NOT_COUNTED))
    boot.closed = 6
    boot.restart()
    assert boot.next() == 6
    totals = boot.finish()
    assert (sum(totals), totals[EXPIRED]) == (boot.written, 2)


def test_a_worker_that_missed_a_change_does_not_repeat_intervals_that_it_annuls() -> None:
    """Its worker begins behind them, and counts their records as expired when it reads them again."""
    boot = Boot(First(1))
    for _ in range(5):
        boot.seal(2)
    boot.renumber(1)
    boot.restart()
    boot.change(1, at_once=False)
    boot.change(2, at_once=False)
    boot.obey()
    totals = boot.finish()
    assert (sum(totals), totals[EXPIRED]) == (boot.written, 8)
