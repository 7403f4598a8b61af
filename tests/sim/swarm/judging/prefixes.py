"""Prefixes of missing members in records: which lines they may consist of, and what a record may say of them.

A prefix is the first lines of an interval that its member has read. Which of the lines that may be late were
in time is not known here, so all choices are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice, product

from elfmesh.control.jobs.records import BUCKETS, CONTRIBUTED, FILTERED, Partly, ResultRecord
from tests.sim.swarm.judging.oracle import HostTruth, Truth, kept
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.workload import Written

TRIED_MAX = 512
"""Choices of lines that are tried for one record; with more of them, nothing is said of its rows."""


def first_lines(lines: list[Written], count: int) -> Iterator[list[Written]]:
    """All ways in which `count` lines can be the first ones, where those that may be late may be left out."""
    for end in range(count, len(lines) + 1):
        begun, skipped = lines[:end], end - count
        late = [line for line in begun if line.late]
        if skipped and not begun[-1].late and not late:
            return
        for out in combinations(late, skipped):
            if begun and begun[-1] not in out:
                yield [line for line in begun if line not in out]
    if not count:
        yield []


def of_member(
    truth: Truth, host: HostTruth, index: int, partly: Partly, version: int
) -> Iterator[list[Written]]:
    """The lines that a prefix may consist of, by its counts."""
    job = truth.by(version)
    for lines in first_lines(host.written(truth.job, index), partly.contributed + partly.filtered):
        if len(kept(job, lines)) == partly.contributed:
            yield lines


def choices(truth: Truth, record: ResultRecord, version: int) -> list[tuple[list[Written], ...]]:
    """The lines that all prefixes of a record may consist of, by prefix; [] if there are too many choices."""
    found: list[list[list[Written]]] = []
    tried = 1
    for each in record.partly:
        host = truth.hosts.get(each.agent)
        of_one = [] if host is None else of_member(truth, host, record.index, each, version)
        found.append(list(islice(of_one, TRIED_MAX)))
        tried *= len(found[-1])
        if tried >= TRIED_MAX:
            return []
    return list(product(*found))


def counted(record: ResultRecord) -> list[int]:
    """The records of all prefixes of a record, by bucket."""
    counts = [0] * len(BUCKETS)
    counts[CONTRIBUTED] = sum(each.contributed for each in record.partly)
    counts[FILTERED] = sum(each.filtered for each in record.partly)
    return counts


def d21_prefixes_are_true(out: Outcome) -> Iterator[str]:
    """A prefix is of a missing member, and consists of the first lines that it has read (D-21)."""
    for truth, each in out.records():
        record = each.record
        where = f"{truth.key[0]} {record.index}"
        if {one.agent for one in record.partly} & {*out.history.tampered}:
            continue
        for one in record.partly:
            if one.agent not in record.missing:
                yield f"{where}: a prefix of {one.agent}, which is not missing"
            host, version = truth.hosts.get(one.agent), out.version(truth.key, record)
            if host is None or next(of_member(truth, host, record.index, one, version), None) is None:
                counted = f"{one.contributed} + {one.filtered}"
                yield f"{where}: {counted} records of {one.agent} are not the first that it has read"
        if record.partly and truth.job.standby_ms is None:
            yield f"{where}: prefixes in a job without standbys"
