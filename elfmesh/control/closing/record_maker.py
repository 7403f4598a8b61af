"""Record maker: makes the record of a run of intervals, and the order to make its rows.

Owns the step from the partial stores to a record and the payloads of its rows. Makes no decisions.
"""

from __future__ import annotations

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.partial_store import covered_in_all
from elfmesh.control.closing.ports import make_record
from elfmesh.control.closing.revisions import inside_of
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import ResultRecord, add_counts
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.upstream.side_input import SideInput

Payloads = tuple[tuple[bytes, ...], ...]
"""Payloads from which the rows of one record are made, per tree."""


class RecordMaker:
    """Record maker of one term.

    Args:
        collection: contributions of the members.
        latest: side inputs: results of other jobs.
    """

    def __init__(self, term: ClosingTerm, collection: Collection, latest: SideInput) -> None:
        self._term, self._trees, self._latest = term, collection.trees, latest
        self._failed = collection.failed

    def make(self, run: Decision, rev: int) -> tuple[ResultRecord, Payloads]:
        """Return the record of the last interval of a run, and the payloads of its rows.

        Args:
            run: the decision about the run.
            rev: number of the revision.
        """
        index, missing = run.index, run.missing
        inside = inside_of(self._trees, index, run.torn)
        manifest = stage_at(self._term.stages, index).manifest
        counts = add_counts(part.counts for tree in inside.parts for part in tree)
        plan = read_plan(manifest.text)
        names = self._term.book.names(missing)
        share = self._term.rates.fidelity(run.required, missing, counts, plan.shape)
        about = (index, run.since, run.state, rev, self._term.epoch, plan.window(index))
        out = ~covered_in_all(self._trees, index) | self._failed.at(index)[0] | missing
        outside = self._term.book.given & out & ~inside.stuck
        record = make_record(
            manifest, about, run.required, missing, names, share, counts, outside, inside.revs
        )
        return self._latest.judged(self._failed.named(record, missing)), tuple(
            tuple(part.payload for part in tree if part.payload) for tree in inside.parts
        )

    def order(self, record: ResultRecord, payloads: Payloads) -> Finalise:
        term, index, rev = self._term, record.index, record.rev
        manifest = stage_at(term.stages, index).manifest
        before, expected = term.open_groups.before(index), term.book.required(index)
        about = (manifest.job_id, term.epoch, manifest, index, payloads, rev, before, record.completeness)
        members = () if before is None else term.book.ids(expected)
        return Finalise(*about, self._latest.inputs(index), members)
