"""All buckets of all records together are what was written (D-1, D-15).

Owns plain sums: of the published counts on one side, of the written lines on the other. When they are taken,
every agent has contributed again, so that nothing is a pending correction to a later interval.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, ResultRecord
from tests.sim.swarm.judging.oracle import violations
from tests.sim.swarm.judging.outcome import Outcome, table
from tests.sim.swarm.workload import GOOD

READ = ("contributed", "filtered", "late_dropped", "expired")
"""Buckets of lines with a usable time."""


def i1_buckets_add_up(out: Outcome) -> Iterator[str]:
    """Every line of a closed interval is in exactly one bucket of one record: the sums are equal."""
    for key, closed in out.counted.items():
        truth = out.truths[key]
        if truth.job.size_s != truth.job.slide_s or out.history.tampered or key[0] in out.lost:
            continue
        published = [each for index, each in out.final[key].items() if index < closed]
        lines = {
            name: [
                line.id
                for line in host.lines
                if line.kind == GOOD and line.ts_us // truth.job.slide_us < closed
            ]
            for name, host in truth.hosts.items()
        }
        found = Counter({name: sum(record.counts[name] for record, _ in published) for name in READ})
        # An agent that has left, or is lost with its disk, may not have contributed all that it had. An agent
        # that has joined counts its earlier records in its first interval.
        there = {name for name in out.there if name in lines and truth.hosts[name].start < closed}
        there -= out.resting.get(key, set())
        least = sum(len(lines[name]) for name in there)
        most = sum(len(each) for each in lines.values())
        if pending_corrections := out.pending_corrections[key]:
            yield f"{key[0]}: in no record, though all contribute again: {pending_corrections}"
        if not least <= found.total() <= most:
            absent = _absent(published, lines) if truth.job.ids else {}
            yield (
                f"{key[0]}: {found.total()} in all buckets, {least} to {most} were written: {dict(found)};"
                f" in no row, by agent: {absent}"
            )


def i1_violations_are_counted(out: Outcome) -> Iterator[str]:
    """A record counts each value of its members that contradicts what its job assumes.

    A skipped record counts them like the records that it drops, because no other record counts these. Late
    records of a member are compared with each other alone.
    """
    for truth, each in out.records():
        record, roster = each.record, out.roster(truth.key, each.record)
        if roster is None or truth.job.partitions > 1:
            continue
        least, most, revs = 0, 0, out.revs(truth.key, record)
        inside = set(roster) - set(record.missing)
        if inside & set(out.history.tampered):
            continue
        for name in inside & set(truth.hosts):
            rev = revs.get(name, 1)
            lines = truth.hosts[name].contributed(truth.job, record.index, rev)
            beyond, contradicting = violations(truth.job, lines)
            least, most = least + beyond + contradicting * (rev == 1), most + beyond + contradicting
        found = record.counts.get(ASSUMPTION_BROKEN, 0)
        if not least <= found <= most:
            yield f"{truth.key[0]} {record.index}: {found} violations, {least} to {most} were written"
        if found and record.is_clean:
            yield f"{truth.key[0]} {record.index}: a clean record of {found} violations"


def _absent(published: list[tuple[ResultRecord, bytes]], lines: dict[str, list[int]]) -> dict[str, int]:
    """By agent, how many of its lines are in no row."""
    inside = {row["id"] for _, rows in published for row in table(rows)}
    return {name: sum(line not in inside for line in each) for name, each in lines.items()}
