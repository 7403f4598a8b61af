"""A grant: the permission in the register's value to close complete intervals by votes (ADR 0049).

Owns the value. `control/register/grant.py` has the rules.
"""

from __future__ import annotations

import msgspec

from elfmesh.machine import Count, Index


class VotingGrant(msgspec.Struct, frozen=True, array_like=True):
    """Permission to close complete intervals by votes.

    Attributes:
        epoch: the epoch of the records that votes close.
        roster_epoch: fence of the contributions in these records.
        roster: version of the roster that decides which members an interval requires.
        first: the first interval that votes may close.
        excluded: numbers of the members that no site waits for.
    """

    epoch: Count
    roster_epoch: Count
    roster: Count
    first: Index
    excluded: tuple[Count, ...] = ()
