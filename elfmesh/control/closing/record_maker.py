"""The record that a run of intervals leaves: what is inside, who is missing, and the order to make its rows.

Owns the way from what the trees have collected to a record and the payloads of its rows. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

from elfmesh.control.closing.decisions import Run
from elfmesh.control.closing.open_sessions import OpenSessions
from elfmesh.control.closing.partial_store import PartialStore, covered_in_all
from elfmesh.control.closing.ports import Failed, make_record
from elfmesh.control.closing.revisions import inside_of
from elfmesh.control.context import Context
from elfmesh.control.jobs.fidelity import Rates
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord, add_counts
from elfmesh.control.jobs.roster import RosterBook
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.jobs.terms import Stage
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.upstream.side_input import SideInput

Payloads = tuple[tuple[bytes, ...], ...]
"""What the rows of one record are made of, of each tree."""


class RecordMaker:
    """Makes the records of one term.

    Args:
        context: the way out.
        stages: the job's versions.
        epoch: the master's term.
        book: its roster.
        trees: what each of the job's trees has collected.
        failed: what could not be merged.
        sessions: those that are open.
        latest: the jobs that are read beside the members' own input.
    """

    def __init__(
        self,
        context: Context,
        stages: tuple[Stage, ...],
        epoch: int,
        book: RosterBook,
        trees: Sequence[PartialStore],
        failed: Failed,
        sessions: OpenSessions,
        latest: SideInput,
    ) -> None:
        self._context, self._stages, self._epoch, self._book = context, stages, epoch, book
        self._trees, self._failed = trees, failed
        self._sessions, self._latest = sessions, latest

    def make(self, run: Run, rev: int, rates: Rates) -> tuple[ResultRecord, Payloads]:
        """The record of the interval that ends a run, and the payloads that its rows are made of.

        Args:
            run: which interval, and how it ends.
            rev: number of the revision.
            rates: how many records members usually have.
        """
        index, missing = run.index, run.missing
        inside, manifest = inside_of(self._trees, index, run.torn), stage_at(self._stages, index).manifest
        counts = add_counts(part.counts for tree in inside.parts for part in tree)
        plan = read_plan(manifest.text)
        names = self._book.names(missing)
        share = rates.fidelity(run.required, missing, counts, plan.joined)
        about = (index, run.since, run.state, rev, self._epoch, plan.window(index))
        out = ~covered_in_all(self._trees, index) | self._failed.at(index)[0] | missing
        outside = self._book.given & out & ~inside.stuck
        record = make_record(
            manifest, about, run.required, missing, names, share, counts, outside, inside.revs
        )
        return self._latest.judged(self._failed.named(record, missing)), tuple(
            tuple(part.payload for part in tree if part.payload) for tree in inside.parts
        )

    def finalise(self, record: ResultRecord, payloads: Payloads) -> None:
        manifest, index, rev = stage_at(self._stages, record.index).manifest, record.index, record.rev
        about = (manifest.job_id, self._epoch, manifest, index, payloads, rev, self._sessions.before(index))
        self._context.emit(Finalise(*about, record.completeness, self._latest.inputs(index)))
