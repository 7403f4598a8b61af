"""Do jobs disturb each other? Operators alone and together (Figures 12a, 12b), a bad job beside good ones.

Eight real agents read live logs; followers note when each window's result arrives. A time is counted from the
moment the window may close to the result at its reader: what the paper calls shuffling, from the snapshots of
the agents' trees to the root, with closing, syncing and serving on top. Alone and together, with and without
the bad job take turns in one run, so that other work on the machine falls on both.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from benchmarks.fleet import ProbedFleet, until
from benchmarks.harness import Figure, percentile
from elfmesh.control.client import Client, connect
from elfmesh.errors import ElfError

AGENTS = 8
RATE_PER_S = 50.0
LATENESS_MS = 100
ROUNDS, ROUNDS_SMALL = 5, 1
SECONDS, SECONDS_SMALL = 8, 3
"""Of each turn."""

LIVE_S = 60.0
BEGUN_S = 3.0
"""After a bad job was applied: its own beginning is not what is looked at."""

PAPER = "ELF, Fig. 12a/b: < 100 ms"
PAPER_MS = 100.0
JOB = """CREATE JOB bench.{name} LATENESS '{lateness} ms' ON STRAGGLER WAIT AS
SELECT {select} FROM clicks {where} GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), {key} {order}"""

OPERATORS = {
    "max": "MAX(clicks_count)",
    "min": "MIN(clicks_count)",
    "sum": "SUM(clicks_count)",
    "avg": "AVG(clicks_count)",
}
TRUNCATED = ("max", "min")
"""In the paper these send the first pairs of an order only."""

BAD_AGENTS = 2
"""As many as this machine has cores: what a bad job burns must not be taken from other agents."""

BAD = {
    "one more ordinary job": ("product, SUM(clicks_count) AS v", "", "product"),
    "huge key space": (
        "id, ts, user.name, count(DISTINCT repeat(product, 50)) AS n, array_agg(repeat(product, 50)) AS all",
        "",
        "id, ts, user.name",
    ),
    "slow function": (
        "product, count(*) AS n",
        "WHERE regexp_like(repeat(product, 20000), '(a|b|[c-z]+ )*[A-Z]+[^q]*(x+y+)+$')",
        "product",
    ),
    "poison lines": ("product, sum(CAST(product AS INT)) AS n", "WHERE kind LIKE '%%'", "product"),
}
"""Name -> what it selects, where, and by what it groups. The first is no bad one: what any job more costs."""


def text(name: str, select: str, where: str, key: str, order: str = "") -> str:
    """A job with windows of a second."""
    return JOB.format(name=name, lateness=LATENESS_MS, select=select, where=where, key=key, order=order)


def operator(name: str) -> str:
    """One of the paper's operators over words: products."""
    order = "ORDER BY v DESC, product LIMIT 10" if name in TRUNCATED else ""
    return text(name, f"product, {OPERATORS[name]} AS v", "", "product", order)


class Followers:
    """Notes how late results come, in milliseconds, of windows that end while they are looked at."""

    def __init__(self, api: str) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._since_s = time.time()
        self._late: dict[str, list[float]] = {}

    def follow(self, name: str) -> None:
        """Follow a job until it is deleted."""
        threading.Thread(target=self._follow, args=(name,), daemon=True).start()

    def _follow(self, name: str) -> None:
        try:
            for line in connect(self._api).results(f"bench/{name}", follow=True):
                end_s = datetime.fromisoformat(line["interval"]["end"]).timestamp()
                with self._lock:
                    if end_s >= self._since_s:
                        self._late.setdefault(name, []).append((time.time() - end_s) * 1000 - LATENESS_MS)
        except ElfError:
            return  # the job is over, or the fleet is

    def take(self) -> dict[str, list[float]]:
        """What was noted since the last call; windows that have ended by now will not be noted."""
        with self._lock:
            self._since_s = time.time()
            late, self._late = self._late, {}
            return late

    def wait_live(self, names: Iterable[str]) -> None:
        """Until each of these jobs has told a window that ended after this call: it has read what was there.

        Raises:
            RuntimeFailure: one does not.
        """
        self.take()
        until(lambda: self._late.keys() >= set(names), "windows of all jobs that end now", LIVE_S)


@contextmanager
def live(agents: int = AGENTS, rate_per_s: float = RATE_PER_S) -> Iterator[tuple[Client, Followers]]:
    """Agents under live traffic."""
    with (
        tempfile.TemporaryDirectory() as directory,
        ProbedFleet(Path(directory), agents, rate_per_s=rate_per_s, idle="1 s") as fleet,
    ):
        client = fleet.begin()
        fleet.traffic.start()
        yield client, Followers(fleet.agents[-2].api)


def turn(
    client: Client, followers: Followers, jobs: Mapping[str, str], seconds: float
) -> dict[str, list[float]]:
    """Run jobs for a while; how late their results came, but for the first."""
    for name, each in jobs.items():
        client.apply(each)
        followers.follow(name)
    try:
        followers.wait_live(jobs)
        followers.take()
        time.sleep(seconds)
        return followers.take()
    finally:
        for name in jobs:
            client.delete(f"bench/{name}")


def operators(*, small: bool) -> list[Figure]:
    """Each operator alone, then all four at once."""
    rounds, seconds = (ROUNDS_SMALL, SECONDS_SMALL) if small else (ROUNDS, SECONDS)
    names = TRUNCATED if small else tuple(OPERATORS)
    alone: dict[str, list[float]] = {name: [] for name in names}
    together: dict[str, list[float]] = {name: [] for name in names}
    with live() as (client, followers):
        for _ in range(rounds):
            for name in names:
                alone[name] += turn(client, followers, {name: operator(name)}, seconds)[name]
            all_late = turn(client, followers, {name: operator(name) for name in names}, seconds)
            for name in names:
                together[name] += all_late[name]
    figures = []
    for name in names:
        one, four = percentile(alone[name], 0.5), percentile(together[name], 0.5)
        figures += [
            Figure(f"{name}, alone, median", one, "ms", PAPER, PAPER_MS / one),
            Figure(f"{name}, with the others, median", four, "ms", "alone", four / one),
        ]
    return figures


def bad(*, small: bool) -> list[Figure]:
    """The four operators without and with a bad job beside them."""
    rounds, seconds = (ROUNDS_SMALL, SECONDS_SMALL) if small else (ROUNDS, SECONDS)
    good = {name: operator(name) for name in OPERATORS}
    figures = []
    with live(BAD_AGENTS) as (client, followers):
        for name, text_of in good.items():
            client.apply(text_of)
            followers.follow(name)
        followers.wait_live(good)
        for kind, (select, where, key) in list(BAD.items())[slice(1, 2) if small else slice(None)]:
            without: list[float] = []
            beside: list[float] = []
            for _ in range(rounds):
                time.sleep(1.0)
                followers.take()
                time.sleep(seconds)
                without += _all(followers.take(), good)
                client.apply(text("bad", select, where, key))
                time.sleep(BEGUN_S)
                followers.take()
                time.sleep(seconds)
                beside += _all(followers.take(), good)
                client.delete("bench/bad")
            alone, disturbed = percentile(without, 0.5), percentile(beside, 0.5)
            figures.append(
                Figure(f"good jobs beside {kind}, median", disturbed, "ms", "alone", disturbed / alone)
            )
            worst, usual = percentile(beside, 0.9), percentile(without, 0.9)
            figures.append(Figure(f"good jobs beside {kind}, p90", worst, "ms", "alone", worst / usual))
    return figures


def _all(late: Mapping[str, list[float]], names: Mapping[str, str]) -> list[float]:
    return [each for name in names for each in late.get(name, [])]


PARTS = {"operators": operators, "bad": bad}
