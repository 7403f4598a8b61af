"""What the records of a job with SEALED must be: the partitions that end in each, and how complete they are.

Owns a walk over the published records in order, in a few lines that share nothing with the product. A
partition is a key; its punctuations are the records with a large value. Or the traffic has partitions, whose
punctuations state the records of their hosts, and each partition is one row.

With several trees, a missing member that had sealed an interval may be inside for some keys (D-6). From then
on the state of the keys of its records is not known: they are in doubt, and the walk judges the others. The
completeness and the counts are those of all keys: doubt can only lower the first, and changes the others by
at most the records in doubt.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from elfmesh.control.jobs.records import CONTRIBUTED, FIRST, LATE, ResultRecord
from tests.sim.swarm.judging.history import Incarnation
from tests.sim.swarm.judging.oracle import Truth
from tests.sim.swarm.judging.outcome import Outcome, table
from tests.sim.swarm.scenario import RECOVERY
from tests.sim.swarm.workload import Written

Row = tuple[Any, ...]
"""The number of a record; or a partition, and the number and the sum of the numbers of its records."""


@dataclass
class _Partition:
    """An open partition; `last_us` is the time of its newest record or punctuation."""

    share: float
    ids: list[int] = field(default_factory=list)
    sealed_by: dict[str, int] = field(default_factory=dict)
    last_us: int = 0

    def stated(self) -> float:
        """Return the share of the records that its producers have stated, or of those that it has."""
        both = len(self.ids), sum(self.sealed_by.values())
        return min(both) / max(both) if any(both) else 1.0


@dataclass
class _Walk:
    """The state behind a record; `ended` has until when the keys of ended partitions are remembered."""

    truth: Truth
    open: dict[str, _Partition] = field(default_factory=dict)
    ended: dict[str, int] = field(default_factory=dict)
    doubted: set[str] = field(default_factory=set)

    def key(self, line: Written) -> str:
        return line.part if self.truth.job.stated else line.key

    def _ends(self, line: Written) -> bool:
        job = self.truth.job
        return line.total is not None if job.stated else line.value >= job.sealed_from

    def doubt(self, keys: set[str]) -> None:
        """Judge these keys no more: it is not known which of their records are inside."""
        self.doubted |= keys
        for key in keys:
            self.open.pop(key, None)
            self.ended.pop(key, None)

    def due(self) -> int:
        """Return the first interval in which a partition ends without a record."""
        job, least_us = self.truth.job, min((one.last_us for one in self.open.values()), default=0)
        return -(-(least_us + job.after_us) // job.slide_us) - 1

    def read(self, start_us: int, share: float, lines: dict[str, list[Written]]) -> int:
        """Take the lines of an interval by host, and return how many of them are late."""
        late = 0
        for one in self.open.values():
            one.share = min(one.share, share)
        for host, mine in lines.items():
            for line in mine:
                key, ends = self.key(line), self._ends(line)
                if key in self.doubted:
                    continue
                if self.ended.get(key, start_us) > start_us:
                    late += not ends
                    continue
                one = self.open.setdefault(key, _Partition(share))
                one.last_us = max(one.last_us, line.ts_us)
                if ends:
                    one.sealed_by[host] = line.total or 0
                else:
                    one.ids.append(line.id)
        return late

    def close(self, end_us: int, expected: Collection[str]) -> tuple[list[Row], float]:
        """Return the rows of the partitions that end, and the least completeness of these.

        Args:
            end_us: end of the interval.
            expected: names of the members; of ALL, only their seals count.
        """
        job, rows, share = self.truth.job, list[Row](), 1.0
        for key, one in sorted(self.open.items()):
            sealed_by = {*one.sealed_by} & set(expected) if job.sealed == "ALL" else {*one.sealed_by}
            needed = len(expected) if job.sealed == "ALL" else int(job.sealed)
            is_sealed = len(sealed_by) >= needed
            if not is_sealed and end_us - one.last_us < job.after_us:
                continue
            share = min(share, one.share, len(sealed_by) / needed)
            if job.early_ms is not None:
                share = min(share, needed / max(needed, len(sealed_by)))
            if job.stated:
                share = min(share, one.stated())
                rows += [(key, len(one.ids), sum(one.ids))] if one.ids else []
            else:
                rows += [(number,) for number in one.ids]
            self.ended[key] = end_us + job.after_us
            del self.open[key]
        return sorted(rows), share


def i5_partitions_are_the_oracles(out: Outcome) -> Iterator[str]:
    """A record has the partitions whose last seal is in its interval, under each of the masters."""
    for key, published in out.final.items():
        truth = out.truths[key]
        if not truth.job.sealed or out.history.tampered or out.scenario.has(RECOVERY) or key[0] in out.lost:
            continue
        records = [published[index] for index in sorted(published)]
        yield from _walked(out, truth, key, records)


def _walked(
    out: Outcome, truth: Truth, key: Incarnation, records: list[tuple[ResultRecord, bytes]]
) -> Iterator[str]:
    walk, before = _Walk(truth), FIRST
    keys = {line.id: walk.key(line) for host in truth.hosts.values() for line in host.lines}

    def of(row: Row) -> str | None:
        return str(row[0]) if truth.job.stated else keys.get(row[0])

    for record, rows in records:
        roster = out.roster(key, record)
        if roster is None or record.version != records[0][0].version:
            return  # another version may begin without the open partitions
        assert record.start_us is not None
        assert record.end_us is not None
        due = max(walk.due(), before + 1)
        if walk.open and due < record.index:
            yield f"{key[0]} {due}: a partition had no record for the duration, and there is none"
            return
        before = record.index
        share = 0.0 if record.state == "SKIPPED" else (len(roster) - len(record.missing)) / len(roster)
        lines, revs, total = {}, out.revs(key, record), [0, 0]
        for name in (set(roster) - set(record.missing)) & set(truth.hosts):
            if record.state != "SKIPPED":
                rev = revs.get(name, 1)
                lines[name] = truth.hosts[name].contributed(truth.job, record.index, rev)
                for at, bucket in enumerate((CONTRIBUTED, LATE)):
                    total[at] += (*truth.hosts[name].counts(record.index, rev), *[0] * 9)[bucket]
        torn = _torn(out, truth, key, record)
        walk.doubt({walk.key(line) for line in torn})
        late = walk.read(record.start_us, share, lines)
        if record.state == "SKIPPED":
            continue
        expected_rows, least = walk.close(record.end_us, roster)
        given = sorted(as_row(truth, row) for row in table(rows))
        where, found = f"{key[0]} {record.index}", [row for row in given if of(row) not in walk.doubted]
        if found != expected_rows:
            yield f"{where}: found {found}, expected {expected_rows} of the partitions that end"
            return
        completeness, expected = record.completeness, min(share, least)
        if completeness > expected or (completeness < expected and not walk.doubted):
            yield f"{where}: completeness {completeness}, expected {expected}"
        in_doubt = sum(walk.key(line) in walk.doubted for line in chain(torn, *lines.values()))
        counted, most = record.counts["contributed"], total[0] - late + len(torn)
        if not most - len(torn) - in_doubt <= counted <= most:
            doubt = f", {in_doubt} in doubt" if in_doubt else ""
            yield f"{where}: {counted} contributed, expected {total[0]} without {late} late ones{doubt}"


def as_row(truth: Truth, row: dict[str, Any]) -> Row:
    """Return a row; records without a partition, such as those after the traffic, have the empty name."""
    return (row["part"] or "", row["n"], int(row["s"])) if truth.job.stated else (row["id"],)


def _torn(out: Outcome, truth: Truth, key: Incarnation, record: ResultRecord) -> list[Written]:
    """Return the records of missing members that are inside if their keys are those of some of the trees."""
    if truth.job.partitions == 1 or record.state == "SKIPPED":
        return []
    noted = [each for each in out.history.appended[key] if each.record.index == record.index]
    closed_at = min(each.at for each in noted if each.record.state != "TENTATIVE")
    missing = [truth.hosts[name] for name in record.missing if name in truth.hosts]
    return [
        line
        for host in missing
        if any(each.start <= record.index < each.stop and each.at <= closed_at for each in host.sealed)
        for line in host.written(truth.job, record.index)
    ]
