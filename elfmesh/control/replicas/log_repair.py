"""Log repair: fills the holes that damage has left in a copy of a results log.

Owns the order in which the job's voters are asked for missing records, and the decision that a record is
lost. Reads and writes no file: holes come from the results log (`LogInfo`, `LogDamaged`) and from this
agent's own vote, which requires records in its log; `MendLog` writes fetched records into the log.

The newest records may be in no other log yet. The register's value contains them, so that it is used first.

Invariants: the lowest hole is filled first, so that a hole only shrinks from its beginning. Only the master
declares a loss, and only after every other voter has answered that it lacks the record, or has been silent
for `SILENT_S`. A declared loss is a record, which every copy of the log gets.

Paper: none. See guarantees D-17.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.pages import decode_page, encode_page
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.register_value import RegisterCell
from elfmesh.control.protocol.events import MendLog
from elfmesh.control.protocol.messages_succession import Fetch, Page
from elfmesh.machine import Contact
from elfmesh.safeguards import safeguard

Hole = tuple[int, int]
"""Indices [first, second)."""

ANSWER_S = 1.0
"""Time for a voter to answer before the next one is asked, too."""

PAUSE_S = 5.0
"""Pause between two rounds without success."""

SILENT_S = 60.0
"""Time for which a voter may be silent before a record that no other voter has counts as lost; the master
then replaces the voter (`register.members.GONE_S`)."""


class LogRepair:
    """The holes of one copy.

    Args:
        job: job of the log.
        incarnation: incarnation of the log.
        voters: returns the agents that may have a copy; None if this copy is not needed any more.
        cell: returns the value of the job's register that this agent has accepted; None: none.
    """

    def __init__(
        self,
        context: Context,
        job: bytes,
        incarnation: str,
        voters: Callable[[], tuple[Contact, ...] | None],
        cell: Callable[[], RegisterCell | None] = lambda: None,
    ) -> None:
        self._context, self._job, self._incarnation, self._voters = context, job, incarnation, voters
        self._cell = cell
        self.holes: list[Hole] = []
        self._declare: Callable[[int, int], bytes] | None = None
        self._lacking: dict[bytes, int] = {}  # voters without the beginning of the lowest hole: end of theirs
        self._asked: dict[bytes, None] = {}
        self._partly = False  # whether a part of the lowest hole is filled
        self._since = 0.0
        self._token: int | None = None
        self._alarm = Alarm(context, self._next)
        self._waiting: list[Callable[[], None]] = []

    @safeguard("mending")
    def found(self, holes: Sequence[Hole]) -> None:
        """Add holes; known holes do not change."""
        for start, stop in holes:
            low = max([start, *(high for begin, high in self.holes if begin <= start < high)])
            high = min([stop, *(begin for begin, end in self.holes if low <= begin < stop)])
            if low < high:
                self.holes = sorted([*self.holes, (low, high)])
        if self.holes and not self._alarm.is_set:
            self._begin()

    def lead(self, declare: Callable[[int, int], bytes] | None) -> None:
        """Set the function that makes the page of a declared loss, while this agent leads the job."""
        self._declare = declare
        if self.holes:
            self._begin()

    def settle(self, then: Callable[[], None]) -> None:
        """Call `then` when no hole is left, or when all voters were asked."""
        if self.holes:
            self._waiting.append(then)
        else:
            then()

    def on_page(self, sender: Contact, page: Page, payload: bytes) -> bool:
        """Take a page; returns whether it answers a request of this repair.

        Raises:
            ProtocolError: the page is damaged.
        """
        if self._token is None or page.token != self._token or not self.holes:
            return False
        start, stop = self.holes[0]
        records = decode_page(payload)
        mine = [each for each in records if start <= each[0].index < stop]
        covered = records[-1][0].index + 1 if records else start
        if page.done or page.hole is not None:
            covered = stop if page.hole is None else page.hole[0]
        covered = min(stop, covered)
        if mine or (self._partly and covered == stop):
            self._fill(max(covered, mine[-1][0].index + 1 if mine else start), encode_page(mine))
        else:
            own = page.hole is not None and page.hole[0] <= start
            self._lacking[sender.id] = page.hole[1] if own and page.hole is not None else stop
            self._next()
        return True

    def _begin(self) -> None:
        self._since = self._context.now
        self._lacking.clear()
        self._asked.clear()
        self._next()

    def _next(self) -> None:
        self._token = None
        self._alarm.cancel()
        voters = self._voters()
        if voters is None or not self.holes:
            self._go_on()
            return
        if self._fill_from_cell():
            return
        start, stop = self.holes[0]
        others = [voter for voter in voters if voter.id != self._context.me.id]
        silent = [voter for voter in others if voter.id not in self._lacking]
        unasked = [voter for voter in silent if voter.id not in self._asked]
        if unasked:
            source = min(unasked, key=lambda voter: self._context.is_gone(voter.id))
            self._asked[source.id] = None
            self._token = self._context.token()
            after = None if start <= FIRST else start - 1
            self._context.send(source, Fetch(self._job, self._incarnation, after, self._token, stop))
            self._alarm.set(ANSWER_S)
        elif self._declare is not None and (not silent or self._context.now - self._since >= SILENT_S):
            ends = [self._lacking[voter.id] for voter in others if voter.id in self._lacking]
            end = max(start + 1, min([stop, *ends]))
            self._context.stats["control.records_lost"] += 1
            self._fill(end, self._declare(start, end))
        else:
            self._go_on()
            self._asked.clear()
            if not silent:
                self._lacking.clear()
            self._alarm.set(PAUSE_S)

    def _fill_from_cell(self) -> bool:
        """Fill the lowest hole from the register's value; returns whether the value has any of its records.

        An accepted record of an index that was in the log is the chosen one.
        """
        cell = self._cell()
        if cell is None or not cell.tail or cell.value.incarnation != self._incarnation:
            return False
        records = decode_page(cell.tail)
        first, last = records[0][0].index, records[-1][0].index
        start, stop = self.holes[0]
        if not start < stop or stop <= first or start > last:
            return False
        if start < first:  # the part before them is filled first
            self.holes[:1] = [(start, first), (first, stop)]
            return False
        mine = [(replace(record, open=b""), rows) for record, rows in records if start <= record.index < stop]
        self._fill(min(stop, last + 1), encode_page(mine))
        return True

    def _fill(self, upto: int, page: bytes) -> None:
        start, stop = self.holes.pop(0)
        self._context.emit(MendLog(self._job, self._incarnation, start, upto, page))
        self._partly = upto < stop
        if self._partly:
            self.holes.insert(0, (upto, stop))
        self._begin()

    def _go_on(self) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            then()
