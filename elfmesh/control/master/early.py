"""Early states of the members at the master, and the lines that their rows become (EARLY).

Owns which messages count: those of a member that the interval expects, with the version that evaluates the
interval, of a window that is not decided. A thread merges the states (`MergeEarly`), because HAVING is
evaluated there; the outcome becomes a line (`closing.early_lines`).

Messages that arrive while a thread merges are merged together after that, because HAVING is then evaluated
once for all of them.

Invariants: an agent has one state of a group, whatever its roster number is, so that a member with a new
number does not count twice. At most `WINDOWS_MAX` open windows have states, the earliest ones, and at most
`WAITING_MAX` messages wait for the thread.
"""

from __future__ import annotations

from typing import Protocol

from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.early_lines import EarlyLines
from elfmesh.control.closing.interval_closer import Closer
from elfmesh.control.closing.open_groups import OpenGroups
from elfmesh.control.context import Context
from elfmesh.control.jobs.plan import JobPlan
from elfmesh.control.jobs.records import ResultRecord
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Terms
from elfmesh.control.protocol.events import EarlyMerged, MemberStates, MergeEarly
from elfmesh.control.protocol.messages_early import PAYLOAD_BYTES_MAX, Early
from elfmesh.machine import Contact

WINDOWS_MAX = 64
"""Maximum number of open windows with early states."""

WAITING_MAX = 256
"""Maximum number of messages that wait for the thread; further ones are dropped, and the next ones make up
for them."""


class EarlyTerm(Protocol):
    """What early rows need of the master's term."""

    context: Context
    book: RosterBook
    closer: Closer
    open_groups: OpenGroups
    collection: Collection
    plan: JobPlan
    epoch: int

    @property
    def terms(self) -> Terms: ...


class EarlyRows:
    """Early rows of one job in one term.

    Args:
        term: of the master.
        lines: receives the lines.
    """

    def __init__(self, term: EarlyTerm, lines: EarlyLines) -> None:
        self._term, self._lines = term, lines
        self._windows: dict[int, None] = {}
        self._examined: int | None = None
        self._waiting: dict[int, list[MemberStates]] = {}
        self._merging = 0
        self.skipped = 0

    def on_early(self, sender: Contact, message: Early, payload: bytes) -> None:
        """Take a member's states, or count why they do not count."""
        term, stats = self._term, self._term.context.stats
        entry = term.book.entry(message.number)
        if term.plan.early_us is None or entry is None or entry.contact.id != sender.id:
            stats["control.misplaced"] += 1
            return
        if len(payload) > PAYLOAD_BYTES_MAX:
            stats["control.malformed"] += 1
            return
        if not self._counts(message):
            stats["control.early_out"] += 1
            return
        self._skip(message.skipped)
        if sum(map(len, self._waiting.values())) >= WAITING_MAX or not self._lines.has_room:
            stats["control.early_dropped"] += 1
            return
        states = MemberStates(sender.id, message.boot, message.seq, payload)
        self._waiting.setdefault(message.interval, []).append(states)
        self._merge_waiting()

    def _merge_waiting(self) -> None:
        """Merge what has arrived, unless a thread merges."""
        if not self._merging:
            waiting, self._waiting = self._waiting, {}
            for interval, states in waiting.items():
                self._merge(interval, tuple(states))

    def _merge(self, interval: int, states: tuple[MemberStates, ...]) -> None:
        term = self._term
        self._merging += 1
        manifest = stage_at(term.terms.stages, interval).manifest
        about = (manifest.job_id, term.epoch, manifest, interval, states)
        if not term.plan.spans:
            term.context.emit(MergeEarly(*about, term.closer.next))
            return
        groups, below = term.open_groups, term.closer.closed
        if groups.next_us is not None:  # an interval that is being closed is already in the open groups
            below = max(below, term.plan.first_after(groups.next_us))
        members, is_settled = term.book.ids(term.book.required(below)), below == term.closer.closed
        term.context.emit(MergeEarly(*about, below, groups.before(interval) or b"", members, is_settled))

    def groups_changed(self) -> None:
        """Examine the partitions again if an interval was closed, because it has left other groups open."""
        term = self._term
        if term.closer.closed == self._examined:
            return
        self._examined = term.closer.closed
        wanted = [each for each in self._windows if each >= term.closer.next]
        if term.plan.spans and wanted and self._lines.has_room:
            self._merge(max(wanted), ())

    def _counts(self, message: Early) -> bool:
        """Return whether states may be in the final record of their interval, and have room."""
        term, interval = self._term, message.interval
        terms = term.terms
        if message.incarnation != terms.manifest.incarnation or interval < term.closer.next:
            return False
        if stage_at(terms.stages, interval).evaluated != message.version:
            return False
        if not term.book.required(interval) >> message.number & 1:
            return False
        for closed in [each for each in self._windows if each < term.closer.next]:
            del self._windows[closed]
        self._windows[interval] = None
        if len(self._windows) > WINDOWS_MAX:  # a peer that names windows of the future keeps out no open one
            del self._windows[max(self._windows)]
        return interval in self._windows

    def _skip(self, groups: int) -> None:
        if groups:
            self.skipped = max(self.skipped, groups)
            self._term.context.stats["control.early_skipped"] += groups

    def merged(self, event: EarlyMerged) -> None:
        """Make lines of the rows that members' states have completed, and merge what has arrived since."""
        self._merging -= 1
        for each in (event, *event.others):
            self._add(each)
        self._merge_waiting()

    def _add(self, event: EarlyMerged) -> None:
        term = self._term
        self._skip(event.skipped)
        if event.error:
            term.context.stats["control.malformed"] += 1
            term.closer.errors.append(f"early rows of interval {event.interval}: {event.error}")
        if not event.count or event.interval < term.closer.next:
            return
        required = term.book.required(event.interval)
        inside = [each for each in term.book.entries if each.contact.id in event.members]
        start_us, end_us = term.plan.window(event.interval)
        manifest = stage_at(term.terms.stages, event.interval).manifest
        names = {each.name for each in inside}
        record = ResultRecord(
            job=manifest.qualified,
            index=event.interval,
            start_us=start_us,
            end_us=end_us,
            state="EARLY",
            rev=self._lines.rev(event.interval),
            completeness=len(event.members) / max(1, required.bit_count()),
            agents_in=len(event.members),
            agents_expected=required.bit_count(),
            version=manifest.version,
            epoch=term.epoch,
            clean=False,
            counted=sorted(names),
            growing=list(term.plan.growing),
        )
        self._lines.add(record, event.rows, event.count)
