"""Outcomes: which members' contributions are not in a closed interval.

Owns the outcomes of the newest intervals, which the master sends with each closed watermark, and the answers
from the results log to members that missed a watermark. Makes no decisions.
"""

from __future__ import annotations

from itertools import chain

from sortedcontainers import SortedDict

from elfmesh.control.context import Context
from elfmesh.control.jobs.pages import decode_page
from elfmesh.control.jobs.records import Partly, ResultRecord
from elfmesh.control.jobs.roster import is_of_epoch
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import LogRead
from elfmesh.control.protocol.messages import Roster
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack, PrefixIn, Revisions
from elfmesh.errors import ProtocolError
from elfmesh.interval_map import CoverMap
from elfmesh.machine import Contact
from elfmesh.srt.coverage import bitmap_of, bits_of

LACKS_MAX = 16
"""Maximum number of runs of intervals with the same missing members in one watermark."""

LACK_BYTES_MAX = 16 << 10
"""Maximum size of their bitmaps together, because a watermark is a multicast."""

PAGE_RECORDS = 64
PAGES_MAX = 16
"""Pages of the results log that are read for one question; the member asks again for later intervals."""


class Lacking:
    """Members that are missing from the intervals of this term, from `start` on."""

    def __init__(self, start: int) -> None:
        self._absent = CoverMap(start)
        self._revised: SortedDict[int, Revisions] = SortedDict()
        self._included: SortedDict[int, tuple[PrefixIn, ...]] = SortedDict()

    def decided(self, start: int, stop: int, absent: int) -> None:
        """Record that the intervals [start, stop) are decided without the numbers in `absent`."""
        self._absent.add(start, stop, absent)

    def revised(self, interval: int, revs: tuple[tuple[int, int], ...]) -> None:
        """Record that the interval is decided with these (number, revision), revisions above 1.

        Votes may close the interval with a record of other revisions than this master has decided.
        """
        self._revised.pop(interval, None)
        if revs:
            self._revised[interval] = Revisions(interval, revs)
        while len(self._revised) > LACKS_MAX:
            self._absent.drop_below(self._revised.popitem(0)[0] + 1)

    def included(self, interval: int, partly: tuple[Partly, ...]) -> None:
        """Record that the interval contains these prefixes of members that are missing from it."""
        self._included.pop(interval, None)
        if partly:
            found = (PrefixIn(interval, each.number, each.contributed, each.filtered) for each in partly)
            self._included[interval] = tuple(found)
        while len(self._included) > LACKS_MAX:
            self._absent.drop_below(self._included.popitem(0)[0] + 1)

    def notified(
        self, closed: int
    ) -> tuple[int, tuple[Lack, ...], tuple[Revisions, ...], tuple[PrefixIn, ...]]:
        """Return the content of a watermark.

        Returns:
            The first interval from which on it is complete; the missing members per run of intervals; the
            revisions; the prefixes of missing members.

        Cost: the number of runs.
        """
        lacks: list[Lack] = []
        at = self._absent.start
        while at < closed:
            stop = min(self._absent.until(at), closed)
            if absent := self._absent.at(at):
                lacks.append(Lack(at, stop, bitmap_of(absent)))
            at = stop
        size, kept = 0, 0
        for lack in reversed(lacks):
            size += len(lack.absent)
            if kept == LACKS_MAX or size > LACK_BYTES_MAX:
                self._absent.drop_below(lack.stop)
                break
            kept += 1
        start = self._absent.start
        revised = tuple(self._revised[at] for at in self._revised.irange(start, closed, (True, False)))
        partly = (self._included[at] for at in self._included.irange(start, closed, (True, False)))
        return start, tuple(lacks[len(lacks) - kept :]), revised, tuple(chain.from_iterable(partly))


class _Answer:
    """Answer to one question, made from pages of the results log."""

    def __init__(self, context: Context, asker: Contact, message: AskFates, closed: int) -> None:
        self._context, self._asker, self._message = context, asker, message
        self._asked = sorted({index for index in message.indices if index < closed})
        self._records: dict[int, ResultRecord] = {}
        self._pages = 0
        self._lost: tuple[tuple[int, int], ...] = ()
        if self._asked:
            self._read(self._asked[0])

    def _read(self, start: int) -> None:
        stop = self._asked[-1] + 1
        job, incarnation = self._message.job, self._message.incarnation
        self._context.read_log(job, incarnation, start, stop, PAGE_RECORDS, self._page)

    def _page(self, read: LogRead | None) -> None:
        if read is None or read.error:
            return
        try:
            self._records.update((record.index, record) for record, _ in decode_page(read.page))
        except ProtocolError:
            self._context.stats["control.malformed"] += 1
            return
        self._pages += 1
        self._lost = read.lost
        if read.hole is not None and read.hole[0] <= self._asked[-1]:
            self._tell(read.hole[0], read.expired)  # the member asks again for what follows
        elif not read.page or read.next is None or read.next > self._asked[-1]:
            self._tell(self._asked[-1] + 1, read.expired)
        elif self._pages >= PAGES_MAX:
            self._tell(read.next, read.expired)
        else:
            self._read(read.next)

    def _tell(self, reached: int, expired: int | None) -> None:
        number = self._message.number
        inside: list[int] = []
        revs: list[int] = []
        outside: list[int] = []
        unknown: list[int] = []
        partly: list[tuple[int, int]] = []
        for index in self._asked:
            if index >= reached:
                break
            record = self._records.get(index)
            if any(first <= index <= last for first, last in self._lost):
                unknown.append(index)
            elif record is not None and not bits_of(record.absent) >> number & 1:
                inside.append(index)
                revs.append(dict(record.revs).get(number, 1))
            elif record is not None:
                outside.append(index)
            else:  # closed without a record: no member whose contribution was inside had records
                (unknown if expired is not None and index <= expired else outside).append(index)
        for record in map(self._records.get, outside):
            prefixes = () if record is None else (each for each in record.partly if each.number == number)
            partly.append(next(((each.contributed, each.filtered) for each in prefixes), (0, 0)))
        job, incarnation = self._message.job, self._message.incarnation
        answer = Fates(
            job, incarnation, number, tuple(inside), tuple(outside), tuple(unknown), tuple(revs),
            tuple(partly) if any(map(any, partly)) else (),
        )  # fmt: skip
        self._context.send(self._asker, answer)


def serve_outcomes(context: Context, asker: Contact, message: AskFates, terms: Terms) -> None:
    """Answer from the results log which of a member's contributions to closed intervals are inside.

    A member whose roster is not the master's gets the master's: its number may be another agent's there.

    Args:
        context: clock and effects.
        asker: the member.
        message: what it asks.
        terms: of the master. All intervals below `closed` are in the log if they have a record.
    """
    if is_of_epoch(message.epoch or terms.epoch, terms.epoch):
        _Answer(context, asker, message, terms.closed)
    else:
        context.send(asker, Roster(terms))
