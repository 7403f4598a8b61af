"""The second way of contributions: shortly before the deadline, the master asks missing members directly.

Owns which members are asked and when again. A reducer that was lost a moment ago holds nothing that its
children do not hold as well, but they notice the loss only after a while and then look for another parent.
The members answer with what they have contributed (`member.copy_sender`), and `CopyRecovery` adds the answers
to all attempts, as it adds copies.

Invariants: a member is asked once in `AGAIN_S`, those with most records first. At most `ASKED_MAX` members
and `EXPECTED_BYTES_MAX` of expected answers are awaited at a time, so that a thousand missing members do not
flood the master. A member that is known to be dead is not asked. While all members are in time, none is.

Paper: PPA II-B replicates such tasks. Deviation: a reducer has no replica, because a request costs nothing
until it is lost.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.protocol.messages_standby import ContributionRequest
from elfmesh.interval_map import numbers
from elfmesh.safeguards import safeguard

PULL_S_MAX, PULL_SHARE = 0.25, 0.25
"""Time before the deadline, at most this share of it, at which the master requests what an interval lacks, so
that the first tentative record contains it."""

AGAIN_S = 1.0
ASKED_MAX = 256
EXPECTED_BYTES_MAX = 16 << 20


class DirectRequests:
    """The requests of one job to members that are missing.

    Args:
        context: way to the members, and the clock.
        about: the job, and the epoch of its master.
        book: the roster.
        rates: how many records members usually have.
        dead_since: since when a member is known to be dead; None: it is not.
    """

    def __init__(
        self,
        context: Context,
        about: tuple[bytes, int],
        book: RosterBook,
        rates: Rates,
        dead_since: Callable[[int], float | None],
    ) -> None:
        self._context, self._about, self._book = context, about, book
        self._rates, self._dead_since = rates, dead_since
        self._asked: dict[int, tuple[int, float]] = {}

    @safeguard("second-way")
    def ask(self, missing: int, at: int, answer_bytes: int) -> float:
        """Ask members directly for what they have contributed to an interval and later ones.

        Args:
            missing: bit set of the members that are missing from the interval.
            at: the interval.
            answer_bytes: the size that an answer probably has.

        Returns:
            When to call again if they are still missing.
        """
        now, alive = self._context.now, [each for each in numbers(missing) if not self._is_gone(each)]
        self._asked = {
            each: (interval, when)
            for each, (interval, when) in self._asked.items()
            if missing >> each & 1 and now - when < AGAIN_S
        }
        waiting = [each for each in alive if self._asked.get(each, (at - 1, now))[0] < at]
        room = min(ASKED_MAX, EXPECTED_BYTES_MAX // max(1, answer_bytes)) - len(self._asked)
        usual = {each: sum(self._rates.known(each)) for each in waiting}
        for number in sorted(waiting, key=lambda each: (-usual[each], each))[: max(0, room)]:
            self._send(number, at)
        return min((when for _, when in self._asked.values()), default=now) + AGAIN_S

    def _is_gone(self, number: int) -> bool:
        entry = self._book.entry(number)
        return entry is None or entry.ahead or self._dead_since(number) is not None

    def _send(self, number: int, at: int) -> None:
        entry = self._book.entry(number)
        if entry is not None:
            self._asked[number] = (at, self._context.now)
            self._context.stats["control.asked_directly"] += 1
            self._context.send(entry.contact, ContributionRequest(*self._about, at))
