"""Runs one workload under several schedules of a fleet, and compares what the records say.

A workload is what web servers write and which jobs run; a schedule is the network, the disks and the faults.
Clocks are right and no agent joins or leaves, so the logs of the agents are the same in each schedule. The
final rows of a job are Async if nothing is missing or late: records that meet the conditions are equal over
the schedules. A closed record does not know what arrives late for it: a record meets the conditions if it and
all later ones of its job do. Records that do not meet them may differ, and the share that does is how precise
the conditions are.

Paper: Blazes V-A (labels that are believed there are checked here).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from elfmesh.control.jobs.records import LOSSES
from tests.sim.swarm import scenario as kinds
from tests.sim.swarm.fleet import WRITE_FROM_S
from tests.sim.swarm.judging.oracle import Rows
from tests.sim.swarm.judging.outcome import Outcome, Published, table
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import VARIED_FROM, Scenario, draw

SCHEDULES = 6
SAFETY_S_MAX, SLIDE_S_MAX = 40.0, 5
"""Of what is explored: many intervals, and little else, because each schedule costs the same again."""

WORKLOADS_BETWEEN = 1_000_003
"""Between the seeds of the schedules of one workload."""

FAULTS = (
    *kinds.NETWORK_FAULTS, *kinds.PARTITIONS, kinds.CRASH, kinds.POWER, kinds.RACK, kinds.FAILPOINT,
    kinds.PAUSE, kinds.FULL_DISK, kinds.FAILED_SYNC, kinds.BIT_FLIP, kinds.SLOW_DISK, kinds.SLOW_CPU,
)  # fmt: skip
"""What changes when and how records are closed, and not what the logs of the agents say."""


@dataclass
class Comparison:
    """What schedules of one workload have shown.

    Attributes:
        clean: intervals whose records met the conditions in two schedules or more, and were compared.
        unsound: clean records that differ, and violated invariants.
        open: intervals of which some schedule had a record that did not meet the conditions.
        seen: those of `open` whose rows differ from another schedule's.
    """

    clean: int = 0
    unsound: list[str] = field(default_factory=list)
    open: int = 0
    seen: int = 0

    def add(self, other: Comparison) -> None:
        self.clean += other.clean
        self.open += other.open
        self.seen += other.seen
        self.unsound += other.unsound


def workload(seed: int) -> Scenario:
    """Return the jobs and the traffic of a workload, with the faults of its first schedule."""
    draws = (draw(seed + again * WORKLOADS_BETWEEN) for again in count(VARIED_FROM))
    drawn = next(each for each in draws if _is_comparable(each))
    traffic = replace(drawn.traffic, late=0.0, torn=0.0, future=0.0)
    return replace(
        drawn,
        traffic=traffic,
        traffic_seed=seed,
        faults=tuple(kind for kind in drawn.faults if kind in FAULTS),
        safety_s=WRITE_FROM_S + min(drawn.safety_s, SAFETY_S_MAX),
        clock_offset_s=0.0,
        clock_drift=0.0,
        replay=False,
        clients=0,
    )


def _is_comparable(drawn: Scenario) -> bool:
    """Whether schedules can agree: the time of a post, and so its interval, depends on the schedule."""
    return all(job.slide_s <= SLIDE_S_MAX and not job.delivery for job in drawn.jobs)


def schedule(base: Scenario, number: int) -> Scenario:
    """Return the same workload under another network and other faults; number 0 is the workload's own."""
    if not number:
        return base
    other = draw(base.seed + number * WORKLOADS_BETWEEN)
    return replace(
        base,
        seed=other.seed,
        faults=tuple(kind for kind in other.faults if kind in FAULTS),
        trouble_s=min(other.trouble_s, base.safety_s / 6),
        weather=other.weather,
        poll_s=min(other.poll_s, base.poll_s),
        store_s=other.store_s,
        compute_s=other.compute_s,
        fanout=other.fanout,
    )


def meeting(published: Published) -> Published:
    """Return the records that meet the conditions: clean, and without losses in later ones."""
    kept: Published = {}
    for index in sorted(published, reverse=True):
        record, rows = published[index]
        if any(record.counts.get(name) for name in LOSSES):
            break
        if record.is_clean:
            kept[index] = record, rows
    return kept


def compared(outcomes: Sequence[Outcome], equal: Callable[[Published], Published] = meeting) -> Comparison:
    """Compare the records of schedules of one workload; `equal` returns those that have to be equal."""
    until_us = min(each.written_until_us for each in outcomes)
    traffic = outcomes[0].scenario.traffic
    end_us = until_us - round((traffic.disorder_s + traffic.writing_s) * 1e6)
    found = Comparison(unsound=_other_logs(outcomes, end_us))
    by_job: dict[str, list[Published]] = {}
    for outcome in outcomes:
        for (job, _), published in sorted(outcome.final.items()):
            by_job.setdefault(job, []).append(published)
    for job, of_schedules in sorted(by_job.items()):
        kept = [equal(each) for each in of_schedules]
        for index in sorted({index for each in of_schedules for index in each}):
            records = [each[index] for each in of_schedules if index in each]
            if (records[0][0].end_us or 0) >= end_us:
                continue
            rows: list[Rows] = [table(rows) for _, rows in records]
            clean = [table(each[index][1]) for each in kept if index in each]
            if len(clean) > 1:
                found.clean += 1
                if any(each != clean[0] for each in clean):
                    found.unsound.append(f"{job} {index}: clean records differ: {_two(clean)}")
            if len(clean) < len(records):
                found.open += 1
                found.seen += any(each != rows[0] for each in rows)
    return found


def _two(rows: Sequence[Rows]) -> str:
    first, other = rows[0], next(each for each in rows if each != rows[0])
    only = [[row for row in one if row not in two][:2] for one, two in ((first, other), (other, first))]
    return f"{only[0]} and {only[1]}"


def _other_logs(outcomes: Sequence[Outcome], until_us: int) -> list[str]:
    """Return the hosts whose logs differ below a time: the schedules cannot be compared."""
    wrong = []
    for number, logs in enumerate(zip(*(each.written for each in outcomes), strict=True)):
        found = {
            tuple((each.id, each.ts_us, each.key, each.value) for each in log if each.ts_us < until_us)
            for log in logs
        }
        if len(found) > 1 or () in found:
            wrong.append(f"the logs of host {number} differ between schedules")
    return wrong


def explore(seed: int, schedules: int = SCHEDULES) -> tuple[Comparison, list[Outcome]]:
    """Run a workload under several schedules; invariants hold in each."""
    base = workload(seed)
    outcomes = [run(schedule(base, number)) for number in range(schedules)]
    found = compared(outcomes)
    for number, outcome in enumerate(outcomes):
        found.unsound += [f"schedule {number}: {name}: {lines[0]}" for name, lines in check(outcome).items()]
    return found, outcomes


def explored(seeds: Iterable[int]) -> int:
    """Explore workloads, print what they showed, and return 1 if a label is unsound."""
    total = Comparison()
    for seed in seeds:
        found, _ = explore(seed)
        total.add(found)
        for line in found.unsound:
            print(f"workload {seed}: {line}", flush=True)
        print(f"workload {seed}: {found.clean} clean intervals equal, {found.open} others", flush=True)
    share = total.seen / total.open if total.open else 0.0
    print(f"{total.clean} clean intervals, {len(total.unsound)} unsound")
    print(f"records that do not meet the conditions: {total.open}, {share:.0%} seen to differ")
    return 1 if total.unsound else 0
