"""What one seed means: hosts, jobs, traffic, weather and which kinds of faults, all drawn from the seed.

Owns the drawing only. Each seed has its own parameters and its own subset of faults: a fixed mild mixture
finds nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from elfmesh.limits import FANOUT_MAX
from elfmesh.ql.plan.delivery import TopicDelivery
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.drawing.distances import Distances
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.network import CALM, Weather
from tests.sim.swarm.workload import Traffic
from tests.sim.world.network import Faults

CRASH, POWER, RACK, FAILPOINT, PAUSE, NEW_DISK = "crash", "power", "rack", "failpoint", "pause", "new-disk"
PARTITION, ONE_WAY, RING, ISOLATE_MASTER = "partition", "one-way", "ring", "isolate-master"
FULL_DISK, FAILED_SYNC, BIT_FLIP = "full-disk", "failed-sync", "bit-flip"
SLOW_DISK, SLOW_CPU = "slow-disk", "slow-cpu"
CLOCK_OFFSET, CLOCK_STEP, ROTATE = "clock-offset", "clock-step", "rotate"
JOIN, LEAVE, JOB_CHANGE, JOB_PAUSE = "join", "leave", "job-change", "job-pause"
JOB_UPDATE = "job-update"
"""Drawn apart from the others, so that older seeds say what they said."""
LINKS, STOPPED_AT_REJOIN, DEAD = "links", "stopped-at-rejoin", "dead"
LOST_VOTES, ROT, GOES_BACK = "lost-votes", "rot-of-results", "goes-back"
"""In no seed of their own: only where a shape or a kept scenario asks for them."""
RECOVERY, RACK_DISKS = "recovery", "rack-disks"
"""Drawn apart from the others as well."""
LOSS, DUPLICATES, DELAY, REORDER, LATE_COPIES = "loss", "duplicates", "delay", "reorder", "late-copies"
LATE, BAD_LINES = "late", "bad-lines"

NETWORK_FAULTS = (LOSS, DUPLICATES, DELAY, REORDER, LATE_COPIES)
PARTITIONS = (PARTITION, ONE_WAY, RING, ISOLATE_MASTER)
PROCESS_FAULTS = (CRASH, POWER, RACK, FAILPOINT, PAUSE, NEW_DISK)
DISK_FAULTS = (FULL_DISK, FAILED_SYNC, BIT_FLIP, SLOW_DISK, SLOW_CPU)
CLOCK_FAULTS = (CLOCK_OFFSET, CLOCK_STEP)
CHANGES = (JOIN, LEAVE, JOB_CHANGE, JOB_PAUSE, ROTATE)
INPUT_FAULTS = (LATE, BAD_LINES)
ALL_FAULTS = (
    *NETWORK_FAULTS,
    *PARTITIONS,
    *PROCESS_FAULTS,
    *DISK_FAULTS,
    *CLOCK_FAULTS,
    *CHANGES,
    *INPUT_FAULTS,
)


COST_MAX = 950.0
"""Of the simulation of one seed's faults, in about as many milliseconds of processor time."""

LENGTH_S_MAX = 660.0
INTERVALS_MIN = 22
"""Of the job with the shorter ones: long intervals are cheap, as most of their time is idle."""

VARIED_FROM = 21
"""Seeds below, those of the suite, have no deep trees, replicas or slow writers: they say what they said."""

WRITING_S = 0.045
"""A little less than agents wait for when only the clock says that an interval is over."""


@dataclass(frozen=True)
class Scenario:
    """Everything a seed decides before it runs.

    Attributes:
        seed: of everything random.
        hosts: at the beginning.
        racks: they are spread over.
        safety_s: length of the phase with faults.
        calm_s: before the faults begin.
        faults: kinds in this run.
        trouble_s: mean time between two faults.
        poll_s: how often a stream is looked at.
        glob: the stream's pattern finds rotated logs too.
        fanout: children of one parent in one tree: with few, small fleets have deep trees.
        changing: updates change what is counted; else only the text.
        clients: who change a job of their own all the time, and read it.
        read_bytes: how much of a log is read at once; None: as much as agents do, here all there is.
        page_bytes: of rows that travel with their record, and of a page of more; None: as agents do.
        ordered: whether an ORDERED topic is made of the lines, beside the jobs.
        keeping: the rack whose hosts keep their data inside; "": none.
        distances: latencies by link, and how often masters place by them; None: links are equal.
        traffic_seed: of what the web servers write, which then begins at a fixed time; None: the seed's.
    """

    seed: int
    hosts: int
    racks: int
    safety_s: float
    calm_s: float
    faults: tuple[str, ...]
    trouble_s: float
    jobs: tuple[Job, ...]
    traffic: Traffic
    weather: Weather
    poll_s: float
    glob: bool
    store_s: float
    compute_s: float
    clock_offset_s: float
    clock_drift: float
    replay: bool
    fanout: int = FANOUT_MAX
    read_bytes: int | None = None
    clients: int = 0
    changing: bool = False
    page_bytes: int | None = None
    traffic_seed: int | None = None
    ordered: bool = False
    keeping: str = ""
    distances: Distances | None = None

    @property
    def has_posts(self) -> bool:
        """Whether the lines are posts too."""
        return self.ordered or any(job.delivery for job in self.jobs)

    def has(self, *kinds: str) -> bool:
        return any(kind in self.faults for kind in kinds)

    def condition(self, update: int) -> str:
        """What an update, by its number, asks of records beside what the job does."""
        return f"v >= {100 * (update * 7 % 19) - 900}" if self.changing else f"k <> 'none{update}'"

    def describe(self) -> str:
        jobs = "; ".join(map(Job.describe, self.jobs))
        jobs += "; and an ORDERED topic" if self.ordered else ""
        jobs += f"; hosts of {self.keeping} keep their data there" if self.keeping else ""
        jobs += f"; {self.distances}" if self.distances else ""
        return (
            f"seed {self.seed}: {self.hosts} hosts in {self.racks} racks, {self.safety_s:.0f} s with"
            f" {', '.join(self.faults) or 'no faults'} every {self.trouble_s:.0f} s, fanout {self.fanout}\n"
            f"  jobs: {jobs}\n  traffic: {self.traffic}\n  weather: {self.weather}"
        )


def _faults(rng: random.Random) -> tuple[str, ...]:
    """A subset: few kinds in some seeds, many in others; one seed in sixteen has none."""
    share = (
        rng.choice((0.0, 0.1, 0.1, 0.2, 0.2, 0.35, 0.35, 0.6))
        if rng.random() < 0.5
        else rng.uniform(0.1, 0.3)
    )
    return tuple(kind for kind in ALL_FAULTS if rng.random() < share)


def _updates(seed: int) -> tuple[str, ...]:
    """Whether texts change while their jobs run: in every third seed."""
    return (JOB_UPDATE,) if random.Random(f"updates/{seed}").random() < 1 / 3 else ()


def _weather(rng: random.Random, faults: tuple[str, ...], slide_s: int) -> Weather:
    low = rng.choice((0.0005, 0.001, 0.005, 0.03))
    high = low * rng.choice((1.1, 2.0, 5.0))
    if DELAY in faults:
        low, high = rng.choice(((0.001, 0.3), (0.05, 0.2), (0.2, 1.0)))
    frames = Faults(
        delay_min=low,
        delay_max=high,
        loss=rng.uniform(0, 0.3) if LOSS in faults else 0.0,
        duplicate=rng.uniform(0, 0.5) if DUPLICATES in faults else 0.0,
        reorder=rng.uniform(0, 0.4) if REORDER in faults else 0.0,
        reorder_delay=rng.choice((0.01, 0.1, 0.4, 2.0)),
    )
    if not set(faults) & {*NETWORK_FAULTS}:
        return Weather(frames) if rng.random() < 0.5 else CALM
    return Weather(
        frames,
        late_copy=rng.uniform(0, 0.1) if LATE_COPIES in faults else 0.0,
        late_copy_s=rng.choice((5.0, 60.0, 180.0)),
        stall=rng.uniform(0, 0.05) if DELAY in faults else 0.0,
        stall_s=slide_s * rng.uniform(0.5, 2.0),
    )


def _job(rng: random.Random, name: str, ids: bool, slide_s: int) -> Job:
    hop = rng.random() < 0.2
    return Job(
        name,
        ids,
        slide_s,
        slide_s * rng.choice((2, 3)) if hop else slide_s,
        lateness_s=rng.choice((0, 0, 1, 2, slide_s)),
        deadline_s=rng.choice((0.5, 1.0, 2.0, 5.0)),
        straggler=rng.choice(("wait", "correct", "skip")),
        partitions=rng.choice((1, 1, 1, 2, 3)),
        least=rng.choice((None, None, -500)),
    )


def _length_s(rng: random.Random, hosts: int, jobs: list[Job], traffic: Traffic, poll_s: float) -> float:
    """How long faults last: what is cheap to simulate is simulated for longer.

    The cost of a simulated second is that of its messages, which grow with the square of the hosts, and of
    the blocks that are read.
    """
    reads = min(traffic.rate, 1 / poll_s) * len(jobs)
    sealed = sum(job.partitions / job.slide_s for job in jobs)
    cost = hosts * (0.4 + 0.12 * hosts + 1.2 * reads + 0.8 * sealed)
    length_s = rng.uniform(0.6, 1.4) * COST_MAX / cost
    return min(max(length_s, 1.0 * INTERVALS_MIN * min(job.slide_s for job in jobs), 30.0), LENGTH_S_MAX)


def draw(seed: int) -> Scenario:
    """The scenario of a seed."""
    drawn = _drawn(seed)
    if seed < VARIED_FROM:
        return drawn
    return _planned(_keeping(_wide(_posting(_open(_recovering(_losing(_deep(_writing(_sealing(drawn))))))))))


def _keeping(scenario: Scenario) -> Scenario:
    """Hosts of one rack keep their data inside; see `drawing.wide`."""
    rack = wide.keeping_rack(scenario.seed, scenario.racks)
    return replace(scenario, keeping=rack) if rack else scenario


def _wide(scenario: Scenario) -> Scenario:
    """Jobs that close by votes or that assume, or a last job that is of another kind; see `drawing.wide`."""
    kind, rng = wide.kind_of(scenario.seed), random.Random(f"wide/{scenario.seed}")
    *others, last = scenario.jobs
    if kind == wide.VOTES:
        hosts, racks = max(wide.SITES + 1, scenario.hosts), max(wide.SITES, scenario.racks)
        jobs, distances = wide.voting(scenario.jobs, scenario.seed), wide.distances(scenario.seed)
        return replace(scenario, jobs=jobs, hosts=hosts, racks=racks, distances=distances)
    if not kind:
        return scenario
    if kind == wide.ASSUMED:
        return replace(scenario, jobs=wide.assuming(scenario.jobs, rng))
    if kind == wide.STATED:
        job = wide.stated(last, rng.choice(("1", "1", "2", "ALL")), rng.choice((100, 250, 1000)))
        return replace(scenario, jobs=(*others, job), traffic=wide.in_partitions(scenario.traffic, job))
    without = {JOB_UPDATE} if kind == "WITHIN" else set()  # an update adds a condition, without an input
    faults = tuple(each for each in scenario.faults if each not in without)
    return replace(scenario, jobs=(*others, wide.spanning(last, kind, rng)), faults=faults)


def _posting(scenario: Scenario) -> Scenario:
    """A topic in place of the last job, or an ORDERED one beside the jobs, in every sixth seed."""
    rng = random.Random(f"posting/{scenario.seed}")
    return posting(scenario, rng.choice([*TopicDelivery]), rng) if rng.random() < 1 / 6 else scenario


def posting(scenario: Scenario, delivery: TopicDelivery, rng: random.Random) -> Scenario:
    """The same scenario with a topic, and without updates, which need a query.

    A spool is never rotated, and its posts have times and are complete, so that neither is drawn for ORDERED.
    """
    without = {JOB_UPDATE}
    if delivery is TopicDelivery.ORDERED:
        without |= {ROTATE, BAD_LINES, LATE, RECOVERY}
        traffic = replace(scenario.traffic, broken=0.0, future=0.0, torn=0.0, late=0.0, disorder_s=0.0)
        scenario = replace(scenario, ordered=True, traffic=traffic)
    else:
        *others, last = scenario.jobs
        plain = replace(last, name="posts", ids=True, size_s=last.slide_s, least=None, enough=1)
        topic = replace(
            plain, delivery=str(delivery), standby_ms=None, paths=0,
            early_ms=rng.choice((100, 250, 1000)) if delivery is TopicDelivery.UNORDERED else None,
            sealed=rng.choice(("ALL", "1", "2")) if delivery is TopicDelivery.SEALED else "",
        )  # fmt: skip
        scenario = replace(scenario, jobs=(*others, topic))
    return replace(scenario, faults=tuple(kind for kind in scenario.faults if kind not in without))


def _planned(scenario: Scenario) -> Scenario:
    """Budgets of standbys and racks lost with their disks, for the jobs of newer seeds that have standbys.

    A rack is lost where three or more leave a majority of the voters.
    """
    jobs, lost = wide.planned(scenario.seed, scenario.jobs)
    faults = (RACK_DISKS,) if lost and scenario.racks >= 3 and scenario.hosts >= 4 else ()
    return replace(scenario, jobs=jobs, faults=(*scenario.faults, *faults))


def _open(scenario: Scenario) -> Scenario:
    """Jobs with early rows, and with standbys, each in every fourth seed; drawn apart, as the others."""
    rng, standby = random.Random(f"early/{scenario.seed}"), random.Random(f"standby/{scenario.seed}")
    jobs = scenario.jobs
    if rng.random() < 1 / 4:
        early_ms, enough = rng.choice((100, 250, 1000)), rng.choice((1, 2, 3))
        jobs = tuple(replace(job, early_ms=early_ms, enough=1 if job.ids else enough) for job in jobs)
    if standby.random() < 1 / 4:
        lag_ms = standby.choice((100, 300, 1000))
        jobs = tuple(replace(job, standby_ms=lag_ms, replicas=max(1, job.replicas)) for job in jobs)
    pairs = zip(scenario.jobs, jobs, strict=True)
    return replace(scenario, jobs=tuple(before if before.sealed else after for before, after in pairs))


def _sealing(scenario: Scenario) -> Scenario:
    """Partitions in place of windows, in the last job of every eighth seed."""
    rng = random.Random(f"sealed/{scenario.seed}")
    if rng.random() >= 1 / 8:
        return scenario
    *others, last = scenario.jobs
    return replace(scenario, jobs=(*others, sealed(last, rng.choice(("ALL", "1", "2")))))


def sealed(job: Job, producers: str) -> Job:
    """The same job with partitions that so many producers seal."""
    return replace(job, sealed=producers, ids=True, size_s=job.slide_s, least=None)


def _writing(scenario: Scenario) -> Scenario:
    """Web servers that stamp a line a moment before they write it, in every second seed."""
    if random.Random(f"writing/{scenario.seed}").random() < 1 / 2:
        return scenario
    return replace(scenario, traffic=replace(scenario.traffic, writing_s=WRITING_S))


def _deep(scenario: Scenario) -> Scenario:
    """Trees of few children, in every fourth seed; drawn apart, so that the others say what they said."""
    rng = random.Random(f"fanout/{scenario.seed}")
    return replace(scenario, fanout=rng.choice((1, 2, 2, 3))) if rng.random() < 1 / 4 else scenario


def _losing(scenario: Scenario) -> Scenario:
    """Jobs with replicas, in every sixth seed; half of those lose nothing but agents with their disks."""
    rng = random.Random(f"replicas/{scenario.seed}")
    if rng.random() >= 1 / 6:
        return scenario
    jobs = tuple(replace(job, replicas=rng.choice((1, 1, 2))) for job in scenario.jobs)
    kept = replace(scenario, jobs=jobs, hosts=max(4, scenario.hosts))
    return losing(kept) if rng.random() < 1 / 2 else kept


def _recovering(scenario: Scenario) -> Scenario:
    """Jobs that are recovered without most of their voters, in every twelfth seed.

    Not where nothing else is to happen than that agents are lost with their disks (I11).
    """
    if random.Random(f"recovery/{scenario.seed}").random() >= 1 / 12 or scenario.faults == (NEW_DISK,):
        return scenario
    return replace(scenario, faults=(*scenario.faults, RECOVERY), hosts=max(4, scenario.hosts))


def losing(scenario: Scenario) -> Scenario:
    """The same where agents are lost with their disks, and nothing else happens (I11)."""
    return replace(
        scenario,
        faults=(NEW_DISK,),
        trouble_s=max(15.0, scenario.trouble_s),
        weather=CALM,
        store_s=0.0,
        compute_s=0.0,
        clock_offset_s=3.0,  # who is behind keeps what the others have sealed open
        clock_drift=0.0,
    )


def _drawn(seed: int) -> Scenario:
    rng = random.Random(f"scenario/{seed}")
    faults = _faults(rng)
    slide_s = rng.choice((1, 2, 2, 5, 10, 20, 30))
    jobs = [_job(rng, "ids", True, slide_s)]
    if rng.random() < 0.5:
        jobs.append(_job(rng, "sums", False, rng.choice((slide_s, 2 * slide_s, 5))))
    traffic = Traffic(
        rate=min(3.0, rng.choice((0.5, 2.0, 5.0)) / slide_s),
        silent=rng.choice((0.0, 0.0, 0.2, 0.6)),
        disorder_s=rng.choice((0.0, 0.0, min(job.lateness_s for job in jobs) * 0.8)),
        late=rng.uniform(0, 0.1) if LATE in faults else 0.0,
        late_s=rng.choice((1.0, 5.0, 3.0 * slide_s)),
        broken=rng.uniform(0, 0.1) if BAD_LINES in faults else 0.0,
        future=rng.uniform(0, 0.02) if BAD_LINES in faults else 0.0,
        torn=rng.choice((0.0, 0.1)),
    )
    hosts = rng.choice((3, 3, 3, 3, 3, 4, 4, 4, 5, 5, 6, 8))
    poll_s = rng.choice((0.1, 0.5, 1.0, 1.0)) if slide_s <= 2 else rng.choice((0.2, 1.0, 3.0, 3.0))
    safety_s = _length_s(rng, hosts, jobs, traffic, poll_s)
    return Scenario(
        seed=seed,
        hosts=hosts,
        racks=rng.choice((2, 3, 4)),
        safety_s=safety_s,
        calm_s=rng.uniform(1.0, 10.0),
        faults=(*faults, *_updates(seed)),
        trouble_s=min(rng.choice((3.0, 8.0, 15.0, 30.0)), safety_s / 6),
        jobs=tuple(jobs),
        traffic=traffic,
        weather=_weather(rng, faults, slide_s),
        poll_s=poll_s,
        glob=rng.random() < 0.5,
        store_s=rng.choice((0.001, 0.02, 0.3)) if SLOW_DISK in faults else 0.0,
        compute_s=rng.choice((0.001, 0.05, 0.5)) if SLOW_CPU in faults else 0.0,
        clock_offset_s=rng.choice((0.05, 0.5, 3.0, 15.0)) if CLOCK_OFFSET in faults else 0.0,
        clock_drift=rng.choice((1e-4, 1e-3)) if CLOCK_OFFSET in faults else 0.0,
        replay=rng.random() < 0.15,
    )
