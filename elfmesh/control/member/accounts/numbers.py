"""The numbers that a member has had on the rosters of its job, and the intervals that each decides. Pure.

The record of an interval names numbers: those whose contributions it lacks, and those with a later revision.
A master may die before its roster has reached a successor, although members have it already. Its successor
gives the same numbers to other agents, from other intervals on. So a number decides an interval only if it
was given in the epoch that the newest roster names for it (`roster.has_number`).

Invariant: each interval from the first number on has at most one number, the last that was given for it.
"""

from __future__ import annotations

from typing import NamedTuple

from elfmesh.control.jobs.roster import GivenIn, has_number
from elfmesh.safeguards import safeguard

NUMBERS_MAX = 16
"""Earlier numbers of a member that are remembered."""


class Numbered(NamedTuple):
    """One number of a member.

    Attributes:
        first: the first interval that it decides.
        number: the number.
        epoch: the epoch in which it was given, `roster.UNKNOWN` if an earlier release gave it.
    """

    first: int
    number: int
    epoch: int


@safeguard("lowered-first")
def followed(numbers: list[Numbered], new: Numbered) -> list[Numbered]:
    """The numbers of a member that gets a new one, which decides every interval from its first one on.

    That can be an earlier interval than the first one of the number before, because a member that was evicted
    before its first interval may come back to a master that has seen less.
    """
    before = [each for each in numbers if each.first < new.first]
    same = bool(before) and before[-1][1:] == new[1:]
    return (before if same else [*before, new])[-NUMBERS_MAX:]


def deciding(numbers: list[Numbered], roster: GivenIn, interval: int) -> Numbered | None:
    """The number that decides an interval, None if no record of it can have the member's contribution."""
    return next(
        (
            each
            for each in reversed(numbers)
            if each.first <= interval and has_number(roster, each.number, each.epoch)
        ),
        None,
    )
