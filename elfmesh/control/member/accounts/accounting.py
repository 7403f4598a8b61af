"""The outcome of one member's contributions to closed intervals: in the record, or a dead letter (D-15).

Owns the question for the outcome, and what a difference of the ledger leads to: the stored ledger, and dead
letters. This module decides no outcome: the closed watermarks of the master name the members that an interval
lacks, and for older intervals the master reads its results log on request.

Invariant: the ledger is on disk before the worker may discard the settled contributions, and before the first
contribution with corrected counts is sent.
"""

from __future__ import annotations

from collections.abc import Callable

from elfmesh.control.context import Alarm, Context
from elfmesh.control.jobs.manifest import Manifest
from elfmesh.control.jobs.records import FIRST
from elfmesh.control.jobs.roster import UNKNOWN
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.member.accounts.ledger_state import KIND, Difference
from elfmesh.control.protocol.events import DeadLetter, Persist
from elfmesh.control.protocol.messages_safety import AskFates, Fates, Lack, PrefixIn, Revisions
from elfmesh.safeguards import safeguard
from elfmesh.srt.coverage import bits_of

ASK_S = 2.0
"""How long a member waits for a watermark that names an outcome, before it asks the master, and again."""

ASKED_MAX = 256
"""Intervals in one question."""


class Accounting:
    """The closed contributions of one member of one job.

    Args:
        context: clock, disk and counters.
        manifest: the job.
        ledger: of the member.
        ask: sends a question to the master.
        freed: called after contributions were settled.

    Attributes:
        stages: the versions of the job.
        epoch: of the newest roster, `UNKNOWN` before there is one.
        closed: every interval below is closed.
    """

    def __init__(
        self,
        context: Context,
        manifest: Manifest,
        ledger: Ledger,
        ask: Callable[[AskFates], None],
        freed: Callable[[], None],
    ) -> None:
        self._context, self._manifest, self._ledger = context, manifest, ledger
        self._ask, self._freed = ask, freed
        self.stages: tuple[Stage, ...] = (Stage(FIRST, manifest, manifest.version),)
        self.epoch, self.closed = UNKNOWN, FIRST
        self._alarm = Alarm(context, self._ask_again)
        # Ids are spread evenly, so the members do not all ask a new master at the same time.
        self._pause_s = ASK_S * (1 + context.me.id[0] / 1024)

    def take(self, difference: Difference) -> None:
        """Store a change of the ledger, and write the dead letters that it leads to."""
        for each in difference.left_out:
            self._context.stats["control.dead_letters"] += 1
            manifest = stage_at(self.stages, each.interval).manifest
            self._context.emit(DeadLetter(manifest, each.interval, each.counts, each.payloads, each.unknown))
        self._context.stats["control.prefix_mismatch"] += difference.mismatches
        if difference.must_be_stored:
            self._context.emit(Persist(KIND, self._manifest.job_id, self._ledger.stored()))
        if difference.settled:
            self._freed()
        self._wait()

    def notified(
        self,
        lacked_from: int,
        lacks: tuple[Lack, ...],
        closed: int,
        revised: tuple[Revisions, ...] = (),
        partly: tuple[PrefixIn, ...] = (),
    ) -> None:
        """Take the outcomes that a watermark names for the intervals from `lacked_from` to `closed`.

        Args:
            lacked_from: the first of these intervals.
            lacks: the numbers that they lack.
            closed: one past the last of them.
            revised: the revisions in them that are not the first.
            partly: the prefixes of missing members in them.
        """
        prefixes = {(each.interval, each.number): (each.contributed, each.filtered) for each in partly}
        revisions = {(each.interval, number): rev for each in revised for number, rev in each.revs}

        def outcome(index: int, number: int | None) -> int | None:
            if number is None:
                return self._outside(index)
            if not lacked_from <= index < closed:
                return None
            lack = next((lack for lack in lacks if lack.start <= index < lack.stop), None)
            if lack is not None and bits_of(lack.absent) >> number & 1:
                return 0
            return revisions.get((index, number), 1)

        self.take(self._ledger.outcomes(outcome, prefixes=prefixes))

    def on_outcomes(self, message: Fates) -> None:
        """Take the master's answer to a question for outcomes."""
        known = dict.fromkeys(message.inside, 1) | dict.fromkeys(message.outside, 0)
        known.update(zip(message.inside, message.revs, strict=False))
        found = zip(message.outside, message.partly, strict=False)
        prefixes = {(index, message.number): counts for index, counts in found}

        def outcome(index: int, number: int | None) -> int | None:
            if number is None:
                return self._outside(index)
            return known.get(index) if number == message.number else None

        self.take(self._ledger.outcomes(outcome, frozenset(message.unknown), prefixes))

    @safeguard("outside-when-closed")
    def _outside(self, index: int) -> int | None:
        """The outcome of an interval whose record cannot have our contribution.

        It is not known while the interval is open, because a change of the version may annul it.
        """
        return 0 if index < self.closed else None

    def stop(self, *, rests: bool = False) -> None:
        """Ask no more; `rests`: the stored ledger is for the next member of the job."""
        self._alarm.cancel()
        self._context.emit(Persist(KIND, self._manifest.job_id, self._ledger.stored() if rests else b""))

    def _wait(self) -> None:
        if self._ledger.undecided and not self._alarm.is_set:
            self._alarm.set(self._pause_s)

    def _ask_again(self) -> None:
        if not self._ledger.undecided:
            return
        number, intervals = self._ledger.oldest
        if number is None:
            self.take(self._ledger.outcomes(lambda index, of: self._outside(index) if of is None else None))
        else:
            job, incarnation = self._manifest.job_id, self._manifest.incarnation
            self._ask(AskFates(job, incarnation, number, intervals[:ASKED_MAX], self.epoch))
        self._wait()
