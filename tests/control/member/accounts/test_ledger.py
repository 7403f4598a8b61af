"""The bucket of each sealed record, one event at a time (D-1, D-15)."""

from __future__ import annotations

import msgspec
import pytest

from elfmesh.contribution import Contribution
from elfmesh.control.jobs.records import EXPIRED, FILTERED, LATE, NOT_COUNTED
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.member.accounts.ledger_state import SAME, Difference, LedgerState
from elfmesh.control.protocol.events import Revised, Sealed

JOB, ME = b"j" * 20, 3
Counts = tuple[int, ...]


def records(number: int, filtered: int = 0) -> Counts:
    return (number, filtered, *NOT_COUNTED[2:])


def sealed(start: int, stop: int, *, again: bool = False) -> Sealed:
    """One record in each interval, and one that is filtered."""
    run = tuple(Contribution(index, records(1, 1), b"p") for index in range(start, stop))
    return Sealed(JOB, "x", start, stop, (run,), again=again)


def closed_without(ledger: Ledger, start: int, stop: int) -> Difference:
    ledger.closed(sealed(start, stop))
    return ledger.outcomes(lambda index, number: 0)


@pytest.fixture
def ledger() -> Ledger:
    found = Ledger("x")
    found.numbered(0, ME)
    return found


def test_what_a_record_lacks_is_expired_and_the_rest_of_its_counts_stay(ledger: Ledger) -> None:
    difference = closed_without(ledger, 10, 12)
    assert difference.corrections[EXPIRED] == difference.corrections[FILTERED] == 2
    assert [each.interval for each in difference.left_out] == [10, 11]
    assert difference.must_be_stored


@pytest.mark.parametrize(("prefix", "left", "mismatches"), [((1, 1), (0, 0), 0), ((3, 0), (0, 1), 1)])
def test_what_is_inside_in_a_prefix_is_not_expired(
    ledger: Ledger, prefix: tuple[int, int], left: tuple[int, int], mismatches: int
) -> None:
    ledger.closed(sealed(10, 12))
    difference = ledger.outcomes(lambda index, number: 0, prefixes={(10, ME): prefix, (11, ME + 1): (1, 1)})
    found = difference.corrections
    assert (found[EXPIRED], found[FILTERED]) == (left[0] + 1, left[1] + 1)
    assert (difference.mismatches, len(difference.left_out)) == (mismatches, 2)


def test_corrections_are_placed_only_with_what_never_went_up(ledger: Ledger) -> None:
    closed_without(ledger, 10, 11)
    again = sealed(11, 12, again=True)
    assert ledger.sealed(again, 0) == (again, SAME)
    up, difference = ledger.sealed(sealed(12, 14), 0)
    assert [each.counts[EXPIRED] for each in up.parts[0]] == [1, 0]
    assert difference.corrections[EXPIRED] == -1
    assert not any(ledger.state.pending_corrections)


def test_after_a_restart_the_same_goes_up_with_the_same_interval(ledger: Ledger) -> None:
    closed_without(ledger, 10, 11)
    up, _ = ledger.sealed(sealed(12, 13), 0)
    ledger = Ledger("x", ledger.stored())
    assert ledger.sealed(sealed(12, 13, again=True), 0)[0].parts == up.parts
    assert ledger.sealed(sealed(13, 14), 0)[0] == sealed(13, 14)
    ledger.closed(up)
    difference = ledger.outcomes(lambda index, number: 0)
    assert difference.corrections[EXPIRED] == 2, "its own record, and the one that went up with it"


@pytest.mark.parametrize("is_found", [True, False], ids=["from-before-the-term", "contributed-again"])
def test_after_a_restart_nothing_is_settled_twice(ledger: Ledger, is_found: bool) -> None:
    ledger.closed(sealed(10, 12))
    ledger.outcomes(lambda index, number: 0 if index == 10 else None)
    ledger = Ledger("x", ledger.stored())
    ledger.closed(sealed(10, 12), is_found=is_found)
    assert (ledger.undecided, ledger.released(99)[0]) == (1, 11)
    assert ledger.outcomes(lambda index, number: 0).settled == 1
    assert ledger.state.pending_corrections[EXPIRED] == 2


def test_what_was_placed_with_an_interval_that_another_version_leaves_out_is_pending_again(
    ledger: Ledger,
) -> None:
    closed_without(ledger, 10, 11)
    ledger.sealed(sealed(12, 13), 0)
    ledger.rewound(12)
    assert ledger.remade(sealed(12, 13)) == SAME, "it goes up with the same interval"
    nothing = Sealed(JOB, "x", 12, 13, ((),))
    assert ledger.remade(nothing).corrections[EXPIRED] == 1


def test_what_was_placed_with_an_annulled_interval_is_pending_again_when_that_is_closed(
    ledger: Ledger,
) -> None:
    closed_without(ledger, 10, 11)
    ledger.sealed(sealed(12, 13), 0)
    ledger.rewound(12)
    assert ledger.released(12) == (12, SAME)
    floor, difference = ledger.released(13)
    assert (floor, difference.corrections[EXPIRED]) == (13, 1)
    assert difference.must_be_stored


def test_a_revision_adds_what_it_adds_once() -> None:
    ledger = Ledger("x")
    ledger.numbered(0, ME)
    run = (Contribution(0, records(2), b"p", 2),)
    event = Revised(JOB, "x", 0, 2, (run,), records(1), seq=1)
    assert ledger.revised(event, is_open=True) == (event, SAME)
    ledger.closed(Sealed(JOB, "x", 0, 1, (run,)))
    assert ledger.outcomes(lambda index, number: 1).corrections[LATE] == 1, "the record has revision 1"
    assert ledger.revised(event, is_open=False) == (None, SAME)
    _, difference = ledger.revised(Revised(JOB, "x", 0, 3, (run,), records(1), seq=2), is_open=False)
    assert difference.corrections[LATE] == 1, "it came too late"


def test_records_that_a_worker_repeats_below_the_first_interval_count_once() -> None:
    ledger = Ledger("x")
    ledger.numbered(60, ME)
    for event, number in ((sealed(0, 30), 30), (sealed(0, 25, again=True), 0), (sealed(25, 50), 20)):
        _, difference = ledger.sealed(event, 60)
        assert difference.corrections[EXPIRED] == difference.corrections[FILTERED] == number
    up, _ = ledger.sealed(sealed(50, 70), 60)
    assert [each.interval for each in up.parts[0]] == [*range(60, 70)], "the others go up"
    assert up.parts[0][0].counts[EXPIRED] == 60


def test_what_went_up_under_another_number_is_settled_there(ledger: Ledger) -> None:
    ledger.sealed(sealed(0, 10), 0)
    ledger.numbered(20, ME + 1)
    assert ledger.sealed(sealed(0, 10, again=True), 20)[1] == SAME
    up, difference = ledger.sealed(sealed(10, 20), 20)
    assert (up, difference) == (sealed(10, 20), SAME), "an earlier master expected it"


def test_what_another_version_makes_again_below_the_first_interval_is_counted_once() -> None:
    ledger = Ledger("x")
    ledger.numbered(4, ME)
    ledger.sealed(sealed(0, 10), 4)
    assert ledger.state.pre_start == 4
    ledger.rewound(2)
    ledger.numbered(8, ME + 1)
    up, difference = ledger.sealed(sealed(2, 8), 8)
    assert [each.interval for each in up.parts[0]] == [4, 5, 6, 7]
    assert difference == SAME


def test_a_number_of_another_epoch_than_the_roster_names_decides_nothing(ledger: Ledger) -> None:
    """A master that died with its roster gave it; now another agent has it."""
    ledger.on_roster(((0, 1),))
    ledger.numbered(10, ME + 1, 1)
    ledger.closed(sealed(8, 12))
    ledger.on_roster(((0, 1), (ME + 1, 2)))
    ledger.numbered(20, ME + 2, 2)
    assert ledger.oldest == (ME, (8, 9, 10, 11)), "an earlier number is in force again"


def test_a_number_that_a_roster_has_again_decides_again() -> None:
    """The master that lacked it has died as well, and its successor has the roster of the one before."""
    ledger = Ledger("x")
    ledger.on_roster(((0, 1),))
    ledger.numbered(10, ME, 1)
    ledger.closed(sealed(10, 11))
    found = []
    for roster in (((0, 2),), ((0, 1),)):
        ledger.on_roster(roster)
        found.append(ledger.oldest)
    assert found == [(None, (10,)), (ME, (10,))]


def test_a_number_decides_nothing_below_the_interval_that_it_begins_with(ledger: Ledger) -> None:
    """When these intervals were closed it was not given, so none is said to lack it."""
    ledger.numbered(20, ME + 1, 1)
    ledger.closed(sealed(19, 21))
    assert ledger.oldest == (ME, (19,))


def test_a_number_that_begins_earlier_than_the_one_before_replaces_it() -> None:
    ledger = Ledger("x")
    for first, number in ((0, ME), (20, ME + 1), (10, ME + 2), (30, ME + 2)):
        ledger.numbered(first, number, 1)
    ledger = Ledger("x", ledger.stored())
    assert ledger.state.numbers == ((0, ME), (10, ME + 2))
    assert ledger.state.given_in == (1, 1)
    assert ledger.numbered(40, ME + 2, 1) == SAME


def test_of_what_no_agent_knows_nothing_is_corrected(ledger: Ledger) -> None:
    ledger.closed(sealed(10, 11))
    difference = ledger.outcomes(lambda index, number: None, frozenset((10,)))
    assert (difference.corrections, difference.settled) == (NOT_COUNTED, 1)
    assert [(each.interval, each.unknown) for each in difference.left_out] == [(10, True)]


@pytest.mark.parametrize("stored", [b"", b"\xc1rubbish", Ledger("another").stored()])
def test_a_damaged_ledger_or_one_of_another_incarnation_is_an_empty_one(stored: bytes) -> None:
    assert Ledger("x", stored).stored() == Ledger("x").stored()


def test_a_ledger_of_an_earlier_release_shows_by_its_first_number_what_is_counted() -> None:
    ledger = Ledger("x", msgspec.msgpack.encode(LedgerState("x", ((20, ME),), pre_start=20)))
    ledger.on_roster(((0, 5),))
    ledger.closed(sealed(10, 22), is_found=True)
    assert ledger.oldest[0] == ME, "its epoch is not known"
    assert ledger.outcomes(lambda index, number: 0).corrections[EXPIRED] == 2
