"""D-1 at one host: each line that it has read stands in exactly one bucket of its contributions.

Owns what a lost disk takes along: the counts that a version has annulled and the last frame carries. Another
version begins by a frame that takes back what was sealed from an interval on; counts of late and expired
records in it, which are not read again, wait in that frame for the next interval that the host seals.
"""

from __future__ import annotations

from collections.abc import Iterator

from elfmesh.control.jobs.records import BUCKETS, FIRST, PARSE_ERROR
from tests.sim.swarm.judging.history import GOOD_BUCKETS
from tests.sim.swarm.judging.oracle import HostTruth, Truth
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.workload import GOOD


def i1_conservation(out: Outcome) -> Iterator[str]:
    """Each line that a host has read stands in exactly one bucket of its contributions (D-1)."""
    for truth in out.truths.values():
        for host in truth.hosts.values():
            if host.name in out.history.tampered or not host.sealed or truth.job.size_s != truth.job.slide_s:
                continue
            yield from _conserved(truth, host, is_there=host.name in out.there)


def _conserved(truth: Truth, host: HostTruth, *, is_there: bool) -> Iterator[str]:
    last = host.sealed[-1]
    counts = [0] * len(BUCKETS)
    intervals = {index for frame in host.sealed for index in (*frame.counts, *frame.revised)}
    for index in sorted(intervals):
        for bucket, count in enumerate(host.counts(index, host.newest(index))):
            counts[bucket] += count
    slide_us = truth.job.slide_us
    indices = {line.id: line.ts_us // slide_us if line.kind == GOOD else FIRST for line in host.lines}
    read = [line for line in host.lines if host.in_front(last, line, indices[line.id])]
    sealed = [line for line in read if line.kind != GOOD or line.ts_us // truth.job.slide_us < last.stop]
    bad = sum(line.kind != GOOD for line in sealed)
    good = len(sealed) - bad
    found = sum(counts[bucket] for bucket in GOOD_BUCKETS)
    # An agent that is there seals again and counts them; one that is gone has lost them with its disk.
    carried = 0 if is_there or last.annuls is None else last.carried
    # Late lines and errors count in the interval of the newest record: that of an open one is not told yet.
    newest = max((line.ts_us // truth.job.slide_us for line in read if line.kind == GOOD), default=last.stop)
    if found > good or (found + carried < good and newest < last.stop):
        more = f" and {carried} carried" if carried else ""
        yield f"{host.name}: {good} good lines of closed intervals, {found} in buckets {counts}{more}"
    if counts[PARSE_ERROR] > bad:
        yield f"{host.name}: {counts[PARSE_ERROR]} parse errors of {bad} bad lines"
