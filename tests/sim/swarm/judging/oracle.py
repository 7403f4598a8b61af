"""What the answers of a run must be, from what was written and how far each host had read.

Owns plain arithmetic over the ledgers, in a few lines that share nothing with the product. A contribution of
interval i is exactly the records of i in front of the offsets that its frame names; what was written behind
them is late, and must say so.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from elfmesh.control.jobs.records import BUCKETS
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.judging.history import Contribution, Incarnation
from tests.sim.swarm.workload import GOOD, Written

Rows = list[dict[str, Any]]
_FIELDS = {"id": "id", "k": "key", "v": "value"}


@dataclass
class HostTruth:
    """One host and one job: what it wrote, what it sealed.

    Attributes:
        name: of the agent.
        lines: everything complete in its log.
        sealed: the frame that closed each range, newest last.
        start: the interval it began with.
        opened: when it first opened each file for this job.
        released: when it was told, and below which interval everything is closed.
    """

    name: str
    lines: list[Written]
    sealed: list[Contribution]
    start: int
    opened: dict[int, float]
    released: list[tuple[float, int]] = field(default_factory=list)
    _by_interval: dict[int, list[Written]] | None = field(default=None, repr=False)

    def of(self, index: int, rev: int = 1) -> Contribution | None:
        """The frame that holds an interval in a revision, the newest if that was made again after a crash."""
        for each in reversed(self.sealed):
            if each.start <= index < each.stop and each.revs.get(index, 1) == rev:
                return each
            if each.revised.get(index, (0,))[0] == rev:
                return each
        return None

    def counts(self, index: int, rev: int = 1) -> tuple[int, ...]:
        """What that frame says of the records of the interval."""
        frame = self.of(index, rev)
        if frame is None:
            return ()
        found = frame.revised[index][1] if index in frame.revised else frame.counts.get(index, ())
        return found[: len(BUCKETS)]

    def evaluated(self, index: int, rev: int = 1) -> int:
        """The version that has evaluated it."""
        frame = self.of(index, rev)
        assert frame is not None
        return frame.revised[index][2] if index in frame.revised else frame.version

    def newest(self, index: int) -> int:
        """The last revision of an interval that is on disk or was."""
        revised = [each.revised[index][0] for each in self.sealed if index in each.revised]
        return max(
            revised + [each.revs.get(index, 1) for each in self.sealed if index in each.counts], default=1
        )

    def revisions(self) -> Iterator[tuple[Contribution, int, int]]:
        """Every frame, interval and revision that is the newest of its kind."""
        for frame in self.sealed:
            for index in frame.counts:
                if self.of(index, rev := frame.revs.get(index, 1)) is frame:
                    yield frame, index, rev
            for index, (rev, *_) in frame.revised.items():
                if self.of(index, rev) is frame:
                    yield frame, index, rev

    def written(self, job: Job, index: int) -> list[Written]:
        """Good records whose window `index` is."""
        if self._by_interval is None:
            self._by_interval = {}
            for line in self.lines:
                if line.kind == GOOD:
                    for each in windows(job, line.ts_us):
                        self._by_interval.setdefault(each, []).append(line)
        return self._by_interval.get(index, [])

    def contributed(self, job: Job, index: int, rev: int = 1) -> list[Written]:
        """Records of the interval that its frame covers, before the filter."""
        frame = self.of(index, rev)
        if frame is None or index < self.start:
            return []
        return [line for line in self.written(job, index) if self.in_front(frame, line, index)]

    def left_out(self, job: Job) -> Iterator[tuple[int, Written, Contribution]]:
        """Records of sealed intervals that are in no revision, and the first frame that counts them."""
        for line in self.lines:
            for index in windows(job, line.ts_us) if line.kind == GOOD else ():
                inside = self.of(index, self.newest(index)) if index >= self.start else None
                if inside is not None and not self.in_front(inside, line, index):
                    behind = (each for each in self.sealed if self.in_front(each, line, index))
                    first = next((each for each in behind if each.at >= inside.at), None)
                    if first is not None:
                        yield index, line, first

    def is_released(self, index: int, at: float) -> bool:
        """Whether the worker had been told by then that an interval is closed."""
        return any(since <= at and index < stop for since, stop in self.released)

    def in_front(self, frame: Contribution, line: Written, index: int) -> bool:
        """Whether a frame's offsets lie behind a line, for one of its intervals.

        A file that a frame does not name was read to its end and closed, or not yet begun; all of them when
        the job begins, which its first frame says: files are opened before that is written.
        """
        if frame is self.sealed[0] and frame.start == frame.stop:
            return False
        offset = frame.positions.get(line.inode)
        read_up_to = [(to, below) for inode, to, below in frame.read_up_to if inode == line.inode]
        if any(line.end <= to and index < below for to, below in read_up_to):
            return True
        if offset is not None or read_up_to:
            return line.end <= (offset or 0)
        if self.opened.get(line.inode, frame.at) >= frame.at:
            return False
        return not any(each.at > frame.at and line.inode in each.positions for each in self.sealed) or any(
            each.at < frame.at and line.inode in each.positions for each in self.sealed
        )


def windows(job: Job, ts_us: int) -> range:
    """The intervals a record falls in."""
    last = ts_us // job.slide_us
    return range(last - job.size_us // job.slide_us + 1, last + 1)


def kept(job: Job, lines: Iterable[Written]) -> list[Written]:
    """What passes the job's filter."""
    return [line for line in lines if job.least is None or line.value >= job.least]


def rows(job: Job, lines: Iterable[Written]) -> Rows:
    """The rows of an interval, in the order the job asks for."""
    chosen = kept(job, lines)
    if job.ids:
        return [{"id": number, "n": count} for number, count in sorted(_multiset(chosen).items())]
    found = []
    for key in sorted({line.key for line in chosen}):
        group = [line for line in chosen if line.key == key]
        if len(group) < job.enough:
            continue
        values = [line.value for line in group]
        if job.summed is not None and sum(values) < job.summed:
            continue
        found.append(
            {
                "k": key,
                "n": len(group),
                "s": sum(values),
                "f": math.fsum(line.weight for line in group),
                "least": min(values),
                "most": max(values),
            }
        )
    return found


def violations(job: Job, lines: Iterable[Written]) -> tuple[int, int]:
    """Return how many values are beyond the bounds that a job assumes, and how many contradict others."""
    beyond = contradicting = 0
    found = [*lines]
    for each in job.assume.split(", ") if job.assume else ():
        column, sign, other = each.split()
        values = [getattr(line, _FIELDS[column]) for line in found]
        if sign == "->":
            pairs = {*zip(values, (getattr(line, _FIELDS[other]) for line in found), strict=True)}
            contradicting += len(pairs) - len({*values})
        else:
            beyond += sum(value < int(other) if sign == ">=" else value > int(other) for value in values)
    return beyond, contradicting


def _multiset(lines: Iterable[Written]) -> dict[int, int]:
    counts: dict[int, int] = {}
    for line in lines:
        counts[line.id] = counts.get(line.id, 0) + 1
    return counts


@dataclass
class Truth:
    """One job of one run; `texts` are those of its versions."""

    job: Job
    key: Incarnation
    hosts: dict[str, HostTruth]
    texts: Mapping[int, str] = field(default_factory=dict)

    def by(self, version: int) -> Job:
        """The job as a version evaluates it."""
        found = re.findall(r"(?:WHERE|AND) v >= (-?\d+)", self.texts.get(version, ""))
        return replace(self.job, least=max(map(int, found))) if found else self.job

    def expected(
        self,
        index: int,
        inside: Iterable[str],
        revs: Mapping[str, int] | None = None,
        version: int = 1,
        prefixes: Iterable[list[Written]] = (),
    ) -> Rows:
        """The rows of an interval that holds exactly these agents, in these revisions if not the first.

        `prefixes` are the lines of other agents that it holds as well.
        """
        lines = [
            line
            for name in inside
            if name in self.hosts
            for line in self.hosts[name].contributed(self.job, index, (revs or {}).get(name, 1))
        ]
        return rows(self.by(version), [*lines, *chain.from_iterable(prefixes)])

    def names(self, found: Rows, expected: Rows) -> str:
        """What differs, record by record if the job says their numbers."""
        if not self.job.ids:
            return f"found {found}, expected {expected}"
        have = {row["id"]: row["n"] for row in found}
        want = {row["id"]: row["n"] for row in expected}
        lost = sorted(set(want) - set(have))
        alien = sorted(set(have) - set(want))
        often = sorted(number for number, count in have.items() if count > 1)
        return f"lost {lost}, not expected {alien}, more than once {often}"
