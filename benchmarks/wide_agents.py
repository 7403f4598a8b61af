"""Real agents in several regions: processor time by degree of replication (Table I), and a killed master.

`table_1` runs one operator at a time on 12 agents in four regions, each with 500 records/s, and changes the
number of its sites while it runs. A gateway that is no site, and a member without a role, are measured too.
The degrees take turns in each round, because other work shares the machine.

`takeover` kills the master of several jobs. It has no log of them, so its death takes no contribution along,
and the next interval is complete.

Paper: Hwang et al. VI-D. Deviations: the paper's records of 10 ms are seconds here (a window of 10 s that
moves by 1 s); the join is of one stream with itself; a site of ours also reads
a log, as each member does.
"""

from __future__ import annotations

import contextlib
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from benchmarks.agent import cpu_s
from benchmarks.fleet import AGAIN_S, until
from benchmarks.harness import Figure, checked
from benchmarks.replication_agents import Writer
from elfmesh.api.client.client import connect
from elfmesh.errors import ElfError
from tests.e2e.fleet import Agent, Fleet

REGIONS = ("ap", "eu", "sa", "us")
SETTLED_S = 180.0
"""How long a layout may take: the voters move to other regions one after the other."""

# -- Table I -------------------------------------------------------------------------------------------

OPERATORS = {
    "union": "SELECT id, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), id",
    "filter": "SELECT id, count(*) AS n FROM log WHERE v < 50 GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), id",
    "aggregate": """SELECT v, count(*) AS n, sum(id) AS s FROM log
GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '10' SECOND), v""",
    "join": """SELECT l.pair AS pair, count(*) AS n FROM log l
JOIN log r ON l.pair = r.pair AND l.ts < r.ts WITHIN INTERVAL '0.1' SECOND
GROUP BY TUMBLE(r.ts, INTERVAL '1' SECOND), l.pair""",
}
DEGREES = {False: (1, 2, 3, 4), True: (1, 3)}
PER_REGION, RATE, HOSTS_MAX = 3, 500.0, 100
VOTERS = 3
"""The fewest sites that close by votes."""

ROUNDS = {False: 3, True: 1}
WARM_S, MEASURED_S = {False: 6.0, True: 1.0}, {False: 12.0, True: 2.0}

MASTER, SITE, GATEWAY, MEMBER = "the master", "another site", "a gateway", "a member"


def roles(plan: dict[str, Any], names: list[str]) -> dict[str, list[str]]:
    """Return the agents by what they are beside members: each has its first role of the order above."""
    sites = [each["agent"] for each in plan["layout"]["sites"]]
    gateways = {each["agent"] for group in plan["layout"]["groups"] for each in group["gateways"]}
    rest = [name for name in names if name not in sites]
    return {
        MASTER: sites[:1],
        SITE: sites[1:],
        GATEWAY: [name for name in rest if name in gateways],
        MEMBER: [name for name in rest if name not in gateways],
    }


def table_1(*, small: bool) -> Iterator[Figure]:
    """Measure the processor time of each role, by operator and number of sites."""
    with tempfile.TemporaryDirectory() as place, Fleet(Path(place)) as fleet:
        per_region = 1 if small else PER_REGION
        for number in range(per_region * len(REGIONS)):
            fleet.start(1, extra=["--label", f"region={REGIONS[number % len(REGIONS)]}"])
        for operator in ("union",) if small else OPERATORS:
            yield from _operator(fleet, operator, small=small)


def _operator(fleet: Fleet, operator: str, *, small: bool) -> Iterator[Figure]:
    found: dict[tuple[int, str], list[float]] = defaultdict(list)

    with contextlib.ExitStack() as stack:
        for agent in fleet:
            stack.enter_context(Writer([fleet.log(agent.number)], RATE, partial(_line, agent.number)))
        for _ in range(ROUNDS[small]):
            for degree in DEGREES[small]:
                _apply(fleet, operator, degree)
                time.sleep(WARM_S[small])
                for role, share in _used(fleet, operator, MEASURED_S[small]).items():
                    found[degree, role].append(share)
    fleet[0].ask("DELETE", f"/v1/jobs/wide/{operator}")
    for (degree, role), shares in sorted(found.items()):
        about = f"Table I, {operator}, {role}"
        one = found.get((1, MASTER if role == SITE else role), [])
        ratio = median(shares) / median(one) if one else 0.0
        peer = "PATHS 1" if ratio else ""
        yield Figure(f"{about}, PATHS {degree}", 100 * median(shares), "% of a core", peer, ratio)


def _line(host: int, number: int, now: float) -> str:
    """Each record of the fleet has an id, and two after each other at a host are a pair."""
    pair = number // 2 * HOSTS_MAX + host
    return f'{{"ts": {now:.6f}, "id": {number * HOSTS_MAX + host}, "pair": {pair}, "v": {number % 100}}}\n'


def _apply(fleet: Fleet, operator: str, degree: int) -> None:
    text = f"CREATE JOB wide.{operator} PATHS {degree} ACROSS region AS {OPERATORS[operator]}"
    with contextlib.suppress(ElfError):
        fleet[0].apply(text)

    votes = degree >= VOTERS and operator != "join"  # what a join keeps is the master's

    def is_laid_out() -> bool:
        plan = fleet[0].get(f"/v1/jobs/wide/{operator}/plan")
        sites = plan["layout"]["sites"] if plan["layout"] else []
        return len(sites) == degree and (not votes or any("first" in each for each in sites))

    until(is_laid_out, f"{degree} sites that vote", SETTLED_S)


def _used(fleet: Fleet, operator: str, seconds: float) -> dict[str, float]:
    """Return the share of a core that an agent of each role takes, as the mean of its agents."""
    plan = fleet[0].get(f"/v1/jobs/wide/{operator}/plan")
    began, before = time.monotonic(), _spent(fleet)
    time.sleep(seconds)
    lasted, after = time.monotonic() - began, _spent(fleet)
    return {
        role: mean((after[name] - before[name]) / lasted for name in names)
        for role, names in roles(plan, [*before]).items()
        if names
    }


def _spent(fleet: Fleet) -> dict[str, float]:
    return {agent.name: cpu_s(agent.process.pid) for agent in fleet if agent.process is not None}


# -- a master is killed --------------------------------------------------------------------------------

JOBS = {False: 8, True: 4}
COUNTS = """CREATE JOB wide.n{} PATHS 3 ACROSS region DEADLINE '1 s' AS
SELECT v, count(*) AS n FROM log GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), v"""
USUAL_S = 10.0
NO_LOG = "an agent without a log"


def takeover(*, small: bool) -> Iterator[Figure]:
    """Compare the time until the next result with that before, for readers in other regions."""
    regions = REGIONS[:3]
    with tempfile.TemporaryDirectory() as place, Fleet(Path(place)) as fleet:
        for number in range(9):
            stream = "log" if number < 6 else "none"
            fleet.start(1, stream=stream, extra=["--label", f"region={regions[number % 3]}"])
        with Writer([fleet.log(number) for number in range(6)], 50.0, _counted):
            for number in range(JOBS[small]):
                fleet[0].apply(COUNTS.format(number))
            names = [f"wide/n{number}" for number in range(JOBS[small])]
            arrivals = Arrivals(fleet[0], names)
            yield from _killed(fleet, arrivals, [*range(6, 9)])


def _counted(number: int, now: float) -> str:
    return f'{{"ts": {now:.6f}, "v": {number % 20}}}\n'


def _votes(fleet: Fleet, job: str) -> bool:
    """Return whether votes of living agents in three regions close the job's intervals.

    An agent that answers nothing is asked again. A voter that is dead is replaced after a minute.
    """
    client = connect(fleet[0].api)
    alive = {agent.overlay for agent in fleet if agent.process is not None and agent.process.poll() is None}
    with contextlib.suppress(ElfError):
        described, layout = client.ask("describe", job), client.ask("plan", job)["layout"]
        votes = any("first" in each for each in layout["sites"]) if layout else False
        spread = len({*described["voter_domains"]}) == VOTERS
        return votes and spread and alive.issuperset(described["voters"])
    return False


class Arrivals:
    """When a reader at an agent has each next record of some jobs."""

    def __init__(self, reader: Agent, jobs: list[str]) -> None:
        self.at: dict[str, list[float]] = {job: [] for job in jobs}
        for job in jobs:
            threading.Thread(target=self._follow, args=(reader, job), daemon=True).start()

    def _follow(self, reader: Agent, job: str) -> None:
        start: int | None = None
        while reader.process is not None and reader.process.poll() is None:
            with contextlib.suppress(ElfError):  # the agent reports that it has found no master
                for record in connect(reader.api).results(job, follow=True, start=start, rows=False):
                    self.at[job].append(time.monotonic())
                    start = record["interval"]["index"] + 1
            time.sleep(AGAIN_S)

    def after(self, job: str, moment: float) -> float | None:
        """Return the seconds from a moment to the next record; None: there is none yet."""
        return next((at - moment for at in self.at[job] if at > moment), None)


def _killed(fleet: Fleet, arrivals: Arrivals, numbers: list[int]) -> Iterator[Figure]:
    """Kill the agent of these that leads most jobs."""
    for job in arrivals.at:
        until(partial(_votes, fleet, job), f"votes of {job} in three regions", SETTLED_S)
    masters = {job: connect(fleet[0].api).ask("describe", job)["master"] for job in arrivals.at}
    led = {at: [job for job, name in masters.items() if name == fleet[at].name] for at in numbers}
    victim = max(numbers, key=lambda at: len(led[at]))
    checked(bool(led[victim]), f"no job is led by {NO_LOG}")
    time.sleep(USUAL_S)
    killed_at = time.monotonic()
    fleet[victim].kill()
    usual, found = list[float](), list[float]()
    for job in led[victim]:
        found.append(until(partial(arrivals.after, job, killed_at), f"a result of {job}", SETTLED_S))
        usual += [each for s in range(2, 6) if (each := arrivals.after(job, killed_at - s)) is not None]
    about = f"the master is killed, real agents, {NO_LOG}"
    yield Figure(f"{about}: next result before, median", median(usual), "s")
    ratio = median(found) / median(usual)
    yield Figure(f"{about}: next result, median", median(found), "s", "before", ratio)
    yield Figure(f"{about}: next result, longest of {len(found)}", max(found), "s")


PARTS: dict[str, Callable[..., Iterator[Figure]]] = {"table_1": table_1, "takeover": takeover}
