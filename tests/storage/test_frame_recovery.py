"""Which frames of a damaged log count, and what is declared as lost."""

from __future__ import annotations

import pytest

from elfmesh.storage.frame_recovery import Continuity, LogRecovery
from elfmesh.storage.frames import Forgotten, Frame, Released, RevisedInterval, Sealed

GAP = None
"""A damaged range between two frames."""


def sealed(start: int, stop: int, seq: int = 0, revised: int = 0, annuls: int | None = None) -> Sealed:
    revisions = [RevisedInterval(0, 2, [], [], [], seq, 1)] * revised
    return Sealed("j", 1, start, stop, [], revised=revisions, seq=seq, annuls=annuls)


def recovered(*found: Frame | None) -> tuple[list[bool], LogRecovery]:
    """Whether each frame counts, and the losses."""
    recovery, fits = LogRecovery(), list[bool]()
    continuity = Continuity(recovery)
    for frame in found:
        if frame is None:
            recovery.gaps.append((0, 1))
        else:
            fits.append(continuity.fits(frame))
    return fits, recovery


def test_frames_that_follow_each_other_lose_nothing_wherever_the_gap_is() -> None:
    fits, recovery = recovered(GAP, sealed(0, 0), sealed(0, 2), GAP, sealed(2, 3, seq=1, revised=1))
    assert fits == [True] * 3
    assert (recovery.holes, recovery.torn) == ({}, {})


def test_a_gap_between_two_frames_takes_the_intervals_between_them() -> None:
    _, recovery = recovered(sealed(0, 2), GAP, sealed(5, 6))
    assert recovery.holes == {"j": [(2, 5)]}


def test_a_gap_before_the_first_frame_takes_an_unknown_number_of_intervals() -> None:
    _, recovery = recovered(GAP, sealed(5, 6))
    assert recovery.holes == {"j": [(None, 5)]}


def test_a_gap_takes_the_revisions_whose_numbers_are_missing() -> None:
    _, recovery = recovered(sealed(0, 2, seq=1, revised=1), GAP, sealed(2, 3, seq=4, revised=1))
    assert (recovery.holes, recovery.torn) == ({}, {"j": 3})


@pytest.mark.parametrize("old", [sealed(0, 2), sealed(3, 4, seq=2, revised=1)])
def test_the_frames_of_a_duplicated_block_do_not_count(old: Sealed) -> None:
    fits, _ = recovered(sealed(0, 2), sealed(2, 3, seq=2, revised=1), old, sealed(3, 4, seq=3, revised=1))
    assert fits == [True, True, False, True]


def test_a_frame_that_annuls_intervals_begins_at_the_first_of_them() -> None:
    fits, recovery = recovered(sealed(0, 6), GAP, sealed(4, 5, seq=1, annuls=4))
    assert (fits, recovery.holes) == ([True, True], {})


def test_a_job_that_was_forgotten_begins_again() -> None:
    fits, _ = recovered(sealed(0, 6), Released("j", 6), Forgotten("j"), sealed(0, 1))
    assert fits == [True] * 4
