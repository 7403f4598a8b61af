"""A roster that is lost gave a member a late first interval, and the next master an earlier one.

The records below the late one are counted as expired by then. They must not go up as well, and the master
must not take their intervals for complete.
"""

from __future__ import annotations

from elfmesh.control.jobs.records import FIRST
from elfmesh.srt.events import Contribute
from tests.control.member.member_boots import Boot, First

LATE = 20


def numbered_late_then_early(seed: int = 1) -> Boot:
    boot = Boot(First(seed), first=LATE)
    for _ in range(5):
        boot.seal(2)
    assert boot.member.accounting.pending_corrections[0] == 0
    assert sum(boot.member.accounting.pending_corrections) == 10, "expired, to go up with a later interval"
    boot.epoch, boot.first = 2, FIRST
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
