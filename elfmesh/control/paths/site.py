"""A site makes the records of complete intervals, and votes on them without the master.

It makes them from its parts, or, for a job that reads jobs, from the closed records of these.

Owns, for each job whose register has a grant, what the parts of this site amount to. `register.votes` sends
the votes. A site gives up on no member: an interval that stays incomplete is the master's.

Invariants: a site votes only on an interval that is complete under the grant, in their order, and of which it
has nothing that the record leaves out: no revision, and nothing of a member that the interval does not
require. Therefore the record is a function of the contributions, and equal at all sites (ADR 0049). A record
of upstream records is voted on if all of these are complete, because closed records are equal everywhere.
Parts count only if they are of the grant's roster epoch, and numbers only by the grant's roster.

Paper: Hwang et al. IV-B and IV-F (every replica finalises; the first counts).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from elfmesh.contribution import split
from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.closing.shown import ShownLines
from elfmesh.control.closing.stores.replica_buffers import (
    IntervalStore,
    covered_in_all,
    covered_in_any,
    first_in_any,
)
from elfmesh.control.closing.upstream_intervals import UpstreamIntervals
from elfmesh.control.consensus.voting_grant import VotingGrant
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import COUNTS_MAX, ResultRecord, counts_dict
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.tentative_accuracy import TentativeAccuracy
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.paths.layout import copies_of
from elfmesh.control.protocol.events import Finalise, Finalised
from elfmesh.control.register.grant import abstains, counts, is_complete
from elfmesh.control.register.votes import Votes
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.interval_map import END, numbers
from elfmesh.safeguards import safeguard
from elfmesh.srt.messages import Segment

WHOLE = (1, 0, 0)
"""The content of a complete interval, of which there is one revision."""

REVISED = 2
"""A revision above 1; which one does not matter to a vote."""


@safeguard("site-abstains")
def leaves_out(grant: VotingGrant, book: RosterBook, trees: Sequence[IntervalStore], interval: int) -> bool:
    """Return whether anything of an interval is held that the record of the complete interval leaves out."""
    revised = any(tree.is_revised(interval) for tree in trees)
    held = dict.fromkeys(numbers(covered_in_any(trees, interval)), REVISED if revised else 1)
    return abstains(grant, numbers(book.required(interval)), held)


@safeguard("site-waits-for-all")
def has_all(grant: VotingGrant, book: RosterBook, trees: Sequence[IntervalStore], interval: int) -> bool:
    """Return whether all contributions that an interval requires are held."""
    covered = numbers(covered_in_all(trees, interval))
    return is_complete(grant, numbers(book.required(interval)), covered)


@safeguard("whole-records-are-voted-on")
def is_whole(record: ResultRecord) -> bool:
    """Return whether a record is the only one that its interval can have, so that all sites make it."""
    complete = record.state == "FINAL" and record.completeness == 1.0 and record.clean
    alone = record.since is None and not record.reason and not record.partly
    return complete and alone and record.rev == 1 and not record.revs


@safeguard("complete-is-not-closed")
def as_open(record: ResultRecord) -> ResultRecord:
    """Return the record of a complete interval that no majority is known to have voted on."""
    return replace(record, state="TENTATIVE")


class _NoLeader:
    """What the collection of a site may ask of its leader: the master does it."""

    def __init__(self, ready: Callable[[], None], shown: Callable[[], None]) -> None:
        self.close_ready, self.shown = ready, shown

    is_granted = False

    def commit(self, record: ResultRecord, rows: bytes) -> None: ...

    def keep_pages(self, index: int, pages: tuple[bytes, ...]) -> None: ...

    def advanced(self) -> None: ...

    def hasten(self, stop: int) -> None: ...

    def recollect(self, start: int, stop: int, partition: int, attempt: int) -> None: ...

    def request_of_sites(self, missing: int, due: float) -> float:
        return due

    def evicted(self) -> None: ...

    def end_grant(self) -> None: ...


class Site:
    """The open intervals of one job under one grant.

    Args:
        terms: of the grant's roster.
        grant: permits the votes.
        closed: first interval that is not closed.
        shown: called when there is another tentative record.

    Attributes:
        lines: the complete records that are not known to be closed, as tentative ones.
    """

    def __init__(
        self,
        context: Context,
        terms: Terms,
        grant: VotingGrant,
        closed: int,
        votes: Votes,
        shown: Callable[[], None],
    ) -> None:
        self._context, self._votes, self._grant = context, votes, grant
        self._job = terms.manifest.job_id
        self.book = RosterBook(terms.members, terms.version, terms.given_in, terms.epoch)
        plan, leader = read_plan(terms.manifest.text), _NoLeader(self.advance, shown)
        lasting = Rates(), deque[str](maxlen=1), TentativeAccuracy()
        self._term = ClosingTerm(context, replace(terms, closed=closed), plan, self.book, leader, *lasting)
        self.collection = Collection(self._term)
        side = SideInput(context, [stage.manifest for stage in terms.stages], self.advance)
        self._maker = RecordMaker(self._term, self.collection, side)
        self._copies = copies_of(self._job, len(self.collection.trees), terms.layout or None)
        self.lines = ShownLines(self._term.tentative, self._term.early, context.source())
        self._closed, self.next = closed - 1, closed
        self._source = UpstreamIntervals(self._term) if plan.reads else None
        if self._source is not None:
            self._source.begin(self)
        self._making: ResultRecord | None = None
        self._stuck = False

    def is_of(self, terms: Terms, grant: VotingGrant) -> bool:
        """Whether this is the state of a grant, whatever intervals it begins with."""
        mine = self._grant
        same = (mine.epoch, mine.roster, mine.excluded) == (grant.epoch, grant.roster, grant.excluded)
        return same and self.book.version == terms.version

    def collect(self, partition: int, segment: Segment, payload: bytes, tree: bytes | None = None) -> None:
        """Add a part of a tree; None: the job's own tree of the partition."""
        payloads = split(payload, [entry.size for entry in segment.entries])
        known = 0 <= partition < len(self.collection.trees) and payloads is not None
        sound = all(len(entry.counts) <= COUNTS_MAX for entry in segment.entries)
        if known and sound and payloads is not None and counts(self._grant, segment.epoch):
            copy = 0 if tree is None else self._copies.get(tree, 0)
            self.collection.trees[partition].add(segment, payloads, copy)

    def leaves_out(self, record: ResultRecord) -> bool:
        return leaves_out(self._grant, self.book, self.collection.trees, record.index)

    def advance(self) -> None:
        """Make the record of the next complete interval that has one."""
        granted = self._votes.grant(self._job)
        if granted is None or self._making is not None or self._stuck:
            return
        last = self._votes.last(self._job)
        at = max(granted[1].value.closed, granted[0].first, *(() if last is None else (last + 1,)))
        self.next = at
        self.collection.drop_below(at)
        made = self._of_members(at) if self._source is None else self._of_upstream(self._source, at)
        if made is None:
            return
        self._making, order = made
        if isinstance(order, Finalise):
            self._context.emit(order)
        else:
            self._made(order)

    def stop(self) -> None:
        """End the votes under this grant."""
        if self._source is not None:
            self._source.stop()

    @property
    def closed(self) -> int:
        return self.next

    @property
    def has_room(self) -> bool:
        """Whether the rows of another interval may be made now."""
        return self._making is None and not self._stuck

    def _of_members(self, at: int) -> tuple[ResultRecord, Finalise | bytes] | None:
        """Return the record of the next complete interval of a job with members."""
        decision = self._next(at)
        if decision is None:
            return None
        record, payloads = self._maker.make(decision, 1)
        return record, self._maker.order(record, payloads) if any(payloads) else b""

    def _of_upstream(
        self, source: UpstreamIntervals, at: int
    ) -> tuple[ResultRecord, Finalise | bytes] | None:
        """Return the record of the next complete interval of a job that reads jobs."""
        decision = source.decide(at, paused=False)
        while decision is not None and not decision.has_record:
            decision = source.decide(decision.stop, paused=False)
        made = None if decision is None else source.make(decision, 1)
        return made if made is not None and is_whole(made[0]) else None

    def _next(self, at: int) -> Decision | None:
        trees = self.collection.trees
        while has_all(self._grant, self.book, trees, at):
            required = self.book.required(at)
            stop = min(self.book.changes_after(at), *(tree.until(at) for tree in trees))
            first = first_in_any(trees, at, stop) if required else None
            if first is not None:
                torn = self.collection.revising.torn(first)
                if torn or leaves_out(self._grant, self.book, trees, first):
                    return None
                outside = self.book.given & ~covered_in_all(trees, first)
                return Decision(at, first + 1, True, required, outside=outside)
            if stop >= END:
                return None
            at = stop
        return None

    def finalised(self, event: Finalised) -> None:
        """The rows are made; the master closes an interval whose rows cannot be made or need pages."""
        record = self._making
        if record is None or record.index != event.interval or event.epoch != record.epoch:
            return
        if event.counts:
            self._making = replace(record, counts=counts_dict(event.counts))
        if event.error or event.pages:
            self._making, self._stuck = None, True
            return
        self._made(event.rows)

    def _made(self, rows: bytes) -> None:
        record, self._making = self._making, None
        assert record is not None
        last = self._votes.last(self._job)
        if last is None or record.index > last:
            voted = self._votes.cast(self._job, replace(record, before=last), rows)
            if not voted:
                return  # the chain is full, or the grant has ended: another value follows
        self._show(record, rows)
        self.advance()

    def _show(self, record: ResultRecord, rows: bytes) -> None:
        """Show a complete record to readers at this site while the other votes are on their way."""
        tentative = self._term.tentative
        if record.index > self._closed and tentative.has_room and tentative.wants(record.index, WHOLE):
            tentative.begin(as_open(record), WHOLE)
            tentative.made(record.index, record.rev, rows)

    def on_closed(self, index: int) -> None:
        """Handle that votes have closed everything up to an interval."""
        self._closed = index
        self._term.tentative.drop_below(index + 1)
