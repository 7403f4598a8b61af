"""Record maker: makes the record of a run of intervals, and the order to make its rows.

Owns the step from the partial stores to a record and the payloads of its rows. Makes no decisions.
"""

from __future__ import annotations

from itertools import chain

from msgspec.structs import replace

from elfmesh.control.closing.closing_term import ClosingTerm
from elfmesh.control.closing.collection import Collection
from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.ports import make_record
from elfmesh.control.closing.revisions import inside_of
from elfmesh.control.closing.stores.replica_buffers import covered_in_all, covered_in_any
from elfmesh.control.jobs.plan import read_plan
from elfmesh.control.jobs.records import (
    BUCKETS,
    CONTRIBUTED,
    FILTERED,
    NOT_COUNTED,
    Partly,
    ResultRecord,
    add_counts,
)
from elfmesh.control.jobs.stages import stage_at
from elfmesh.control.protocol.events import Finalise
from elfmesh.control.replicas.prefix_store import Included
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.interval_map import bits
from elfmesh.safeguards import safeguard

Payloads = tuple[tuple[bytes, ...], ...]
"""Payloads from which the rows of one record are made, per tree, without prefixes."""


class RecordMaker:
    """Record maker of one term.

    Args:
        collection: contributions of the members.
        latest: side inputs: results of other jobs.
    """

    def __init__(self, term: ClosingTerm, collection: Collection, latest: SideInput) -> None:
        self._term, self._trees, self._latest = term, collection.trees, latest
        self._failed = collection.failed

    @safeguard("prefix-is-no-coverage")
    def make(self, run: Decision, rev: int) -> tuple[ResultRecord, Payloads]:
        """Return the record of the last interval of a run, and the payloads of its rows.

        A prefix raises the counts and the fidelity. Its member stays missing, and completeness is as without
        it, because no agent knows what the member wrote after the prefix (D-21).

        Args:
            run: the decision about the run.
            rev: number of the revision.
        """
        index, missing = run.index, run.missing
        inside = inside_of(self._trees, index, run.torn)
        manifest = stage_at(self._term.stages, index).manifest
        prefixes = self.included(index, run.required, missing) if run.state != "SKIPPED" else []
        counts = add_counts(part.counts for tree in inside.parts for part in tree)
        counts = add_counts((counts, *map(_counts, prefixes)))
        plan = read_plan(manifest.text)
        names = self._term.book.names(missing)
        start_us, end_us = plan.window(index)
        shares = {
            each.number: self._term.rates.of_prefix(
                each.number, run.required, each.contributed, (each.until_us - start_us) / (end_us - start_us)
            )
            for each in prefixes
        }
        share = self._term.rates.fidelity(run.required, missing, counts, plan.shape, shares)
        about = (index, run.since, run.state, rev, self._term.epoch, plan.window(index))
        out = ~covered_in_all(self._trees, index) | self._failed.at(index)[0] | missing
        outside = self._term.book.given & out & ~inside.stuck
        record = make_record(
            manifest, about, run.required, missing, names, share, counts, outside, inside.revs
        )
        record = replace(record, partly=tuple(map(self._named, prefixes)))
        return self._latest.judged(self._failed.named(record, missing)), tuple(
            tuple(part.payload for part in tree if part.payload) for tree in inside.parts
        )

    def included(self, index: int, required: int, missing: int) -> list[Included]:
        """Return the prefixes of missing members in an interval."""
        prefixes = self._term.prefixes
        inside = covered_in_any(self._trees, index) | self._failed.at(index)[0]
        return prefixes.included(index, prefixes.eligible(required, missing, inside))

    def _named(self, prefix: Included) -> Partly:
        (name,) = self._term.book.names(1 << prefix.number)
        return Partly(prefix.number, name, prefix.until_us, prefix.contributed, prefix.filtered)

    def order(self, record: ResultRecord, payloads: Payloads) -> Finalise:
        term, index, rev = self._term, record.index, record.rev
        manifest = stage_at(term.stages, index).manifest
        before, expected = term.open_groups.before(index), term.book.required(index)
        about = (manifest.job_id, term.epoch, manifest, index, payloads, rev, before, record.completeness)
        members = () if before is None else term.book.ids(expected)
        included = term.prefixes.included(index, bits(each.number for each in record.partly))
        prefixes = tuple(chain.from_iterable(each.payloads for each in included))
        return Finalise(*about, self._latest.inputs(index), members, prefixes=prefixes)


def _counts(prefix: Included) -> tuple[int, ...]:
    counts = list(NOT_COUNTED)
    counts[CONTRIBUTED], counts[FILTERED] = prefix.contributed, prefix.filtered
    return tuple(counts)


def without_prefixes(term: ClosingTerm, record: ResultRecord, run: Decision) -> ResultRecord:
    """Return a record whose rows were made without the prefixes, because these could not be merged."""
    left = dict(record.counts)
    for each in record.partly:
        left["contributed"] -= each.contributed
        left["filtered"] -= each.filtered
    shape = read_plan(stage_at(term.stages, record.index).manifest.text).shape
    counts = [left[name] for name in BUCKETS]
    share = term.rates.fidelity(run.required, run.missing, counts, shape)
    return replace(record, partly=(), counts=left, fidelity=share)
