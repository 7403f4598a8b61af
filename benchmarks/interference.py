"""Do jobs disturb each other? Operators alone and together (Figures 12a, 12b), a bad job beside good ones.

Real agents read live logs; followers note when each window's result arrives. A time is counted from the
moment the window may close to the result at its reader: what the paper calls shuffling, from the snapshots of
the agents' trees to the root, with closing, syncing and serving on top.

Alone and together take turns in one run, on two agents and on eight: there, all agents
want the cores at the moment at which all windows end. So beside what operators take together stands what they
would take if each job waited for nothing but the processor time of the others, shared out over all cores.
Every turn beside a bad job is a fleet of its own whose logs begin
with the same number of old lines, so that each bad job has as much to catch up; its beginning, until it tells
windows that end now, is apart from its steady state; without it is measured before and behind.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from benchmarks import junk
from benchmarks.fleet import ProbedFleet, latest, until
from benchmarks.harness import Figure, percentile
from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo import fleet as fleet_logs
from elfmesh.cli.demo.traffic import ShopTraffic, write_bulk
from elfmesh.errors import ElfError
from elfmesh.units import MICROS

AGENTS = 8
RATE_PER_S = 50.0
LATENESS_MS = 100
ROUNDS, ROUNDS_SMALL = 2, 1
SECONDS, SECONDS_SMALL = 6, 3
"""Of each turn of operators."""

BAD_ROUNDS, BAD_SECONDS = 4, 8
"""Fleets, and seconds with the bad job in its steady state; as long without it."""

BACKLOG_LINES = 1500
"""In each log before the shop opens: half a minute of it."""

LIVE_S = 60.0
CALM_S = 1.0
"""Between two states of a fleet."""

PROBE_S = "0.5"

PAPER = "ELF, Fig. 12a/b: < 100 ms"
PAPER_MS = 100.0
JOB = """CREATE JOB bench.{name} LATENESS '{lateness} ms' ON STRAGGLER WAIT AS
SELECT {select} FROM {stream} {where} GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), {key} {order}"""

OPERATORS = {
    "max": "MAX(clicks_count)",
    "min": "MIN(clicks_count)",
    "sum": "SUM(clicks_count)",
    "avg": "AVG(clicks_count)",
}
TRUNCATED = ("max", "min")
"""In the paper these send the first pairs of an order only."""

FEW_AGENTS = 2
"""As many as this machine has cores: what a job burns at one of them is not taken from the others."""

BAD = {
    "ordinary": ("one more ordinary job", "product, SUM(clicks_count) AS v", "", "product"),
    "keys": (
        "a huge key space",
        "id, ts, user.name, count(DISTINCT repeat(product, 50)) AS n, array_agg(repeat(product, 50)) AS all",
        "",
        "id, ts, user.name",
    ),
    "function": (
        "a slow function",
        "product, count(*) AS n",
        "WHERE regexp_like(repeat(product, 20000), '(a|b|[c-z]+ )*[A-Z]+[^q]*(x+y+)+$')",
        "product",
    ),
    "poison": (
        "lines it cannot use",
        "product, count(*) AS n",
        "",
        "product",
    ),
}
"""Part -> what it is, what it selects, where, and by what it groups. The first is no bad one: what any job
more costs."""

STREAMS = {"poison": junk.STREAM}
"""Where a bad job reads something else than the others."""


def text(
    name: str, select: str, where: str, key: str, order: str = "", stream: str = fleet_logs.STREAM
) -> str:
    """A job with windows of a second."""
    return JOB.format(
        name=name, lateness=LATENESS_MS, select=select, stream=stream, where=where, key=key, order=order
    )


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
def live(
    agents: int = AGENTS,
    rate_per_s: float = RATE_PER_S,
    backlog: int = 0,
    read_from: str = "beginning",
    *,
    with_junk: bool = False,
) -> Iterator[tuple[Client, Followers, ProbedFleet]]:
    """Agents under live traffic, behind so many lines of the time before; `with_junk` beside it."""
    beside = junk.STREAM if with_junk else ""
    with (
        tempfile.TemporaryDirectory() as directory,
        ProbedFleet(
            Path(directory),
            agents,
            rate_per_s=rate_per_s,
            idle="1 s",
            read_from=read_from,
            probe_s=PROBE_S,
            beside=beside,
        ) as fleet,
        junk.Junk(list(fleet.beside.values()), rate_per_s, backlog),
    ):
        client = fleet.begin()
        if backlog:
            seconds = int(backlog / rate_per_s)
            begin_us = (int(time.time()) - seconds) * MICROS
            for number, path in enumerate(fleet.traffic.paths.values()):
                write_bulk(path, backlog, ShopTraffic(number), start_us=begin_us, rate_per_s=rate_per_s)
        fleet.traffic.start()
        yield client, Followers(fleet.agents[-2].api), fleet


@dataclass(slots=True)
class Alternation:
    """What was noted while a set of operators ran.

    Attributes:
        late: milliseconds of each result, by operator.
        cpu_s: of all agents.
        seconds: by the clock.
    """

    late: dict[str, list[float]] = field(default_factory=dict)
    cpu_s: float = 0.0
    seconds: float = 0.0

    def take(self, client: Client, followers: Followers, fleet: ProbedFleet, seconds: float) -> None:
        """Look for a while at jobs that have begun to tell."""
        followers.take()
        began, began_cpu = time.monotonic(), fleet.cpu_s()
        time.sleep(seconds)
        self.cpu_s += fleet.cpu_s() - began_cpu
        self.seconds += time.monotonic() - began
        for name, late in followers.take().items():
            self.late.setdefault(name, []).extend(late)

    @property
    def cpu_ms_per_s(self) -> float:
        """Of all agents."""
        return 1000 * self.cpu_s / self.seconds

    def median(self, name: str) -> float:
        """Of an operator, in milliseconds."""
        return percentile(self.late[name], 0.5)


def turn(
    live: tuple[Client, Followers, ProbedFleet], names: Iterable[str], seconds: float, turns: Alternation
) -> None:
    """Run operators for a while, and note how late their results come, but for the first."""
    client, followers, fleet = live
    names = tuple(names)
    for name in names:
        client.apply(operator(name))
        followers.follow(name)
    try:
        followers.wait_live(names)
        turns.take(client, followers, fleet, seconds)
    finally:
        for name in names:
            client.delete(f"bench/{name}")


def operators(*, small: bool) -> list[Figure]:
    """Each operator alone, then all four at once."""
    if small:
        return _operators(FEW_AGENTS, TRUNCATED, ROUNDS_SMALL, SECONDS_SMALL)
    names = tuple(OPERATORS)
    return [each for agents in (FEW_AGENTS, AGENTS) for each in _operators(agents, names, ROUNDS, SECONDS)]


def _operators(agents: int, names: tuple[str, ...], rounds: int, seconds: float) -> list[Figure]:
    none, alone, together = Alternation(), {name: Alternation() for name in names}, Alternation()
    with live(agents, read_from="end") as fleet:
        for _ in range(rounds):
            none.take(*fleet, seconds)
            for name in names:
                turn(fleet, [name], seconds, alone[name])
            turn(fleet, names, seconds, together)
    figures, label = [], f"{agents} agents"
    for name in names:
        one, all_ = alone[name].median(name), together.median(name)
        figures += [
            Figure(f"{label}: {name}, alone, median", one, "ms", PAPER, PAPER_MS / one),
            Figure(f"{label}: {name}, with the others, median", all_, "ms", "alone", all_ / one),
        ]
    # Windows of a second: what is spent in a second is spent in the interval.
    single = sum(each.cpu_ms_per_s for each in alone.values()) / len(names)
    one = sum(alone[name].median(name) for name in names) / len(names)
    all_ = sum(together.median(name) for name in names) / len(names)
    return [
        *figures,
        Figure(f"{label}: alone, mean of medians", one, "ms"),
        Figure(f"{label}: together, mean of medians", all_, "ms", "alone", all_ / one),
        Figure(f"{label}: CPU of an interval without operators", none.cpu_ms_per_s, "ms"),
        Figure(f"{label}: with one", single, "ms"),
        Figure(f"{label}: with all {len(names)}", together.cpu_ms_per_s, "ms"),
    ]


def bad(part: str, *, small: bool) -> list[Figure]:
    """The four operators without and with a bad job beside them."""
    what, select, where, key = BAD[part]
    if small and part != "keys":
        return [Figure(f"good jobs beside {what}", 0.0, "ms", skipped="one bad job is enough of a trial")]
    rounds, seconds = (1, SECONDS_SMALL) if small else (BAD_ROUNDS, BAD_SECONDS)
    late: dict[str, list[float]] = {"without": [], "its beginning": [], "steady": []}
    took_s = []
    for _ in range(rounds):
        with live(FEW_AGENTS, backlog=BACKLOG_LINES, with_junk=part == "poison") as (client, followers, _):
            good = {name: operator(name) for name in OPERATORS}
            for name, text_of in good.items():
                client.apply(text_of)
                followers.follow(name)
            followers.wait_live(good)

            def note(state: str, seconds: float, followers: Followers = followers) -> None:
                time.sleep(CALM_S)
                followers.take()
                time.sleep(seconds)
                late[state] += _good(followers.take())

            note("without", seconds / 2)
            began, second = time.monotonic(), int(time.time())
            client.apply(text("bad", select, where, key, stream=STREAMS.get(part, fleet_logs.STREAM)))
            until(partial(_tells, client, second), "windows of the bad job that end now", LIVE_S)
            late["its beginning"] += _good(followers.take())
            took_s.append(time.monotonic() - began)
            note("steady", seconds)
            unused = client.describe("bench/bad")["counts"]["parse_error"]
            if (part == "poison") != (unused > BACKLOG_LINES):
                raise RuntimeError(f"{unused} lines were of no use to {what}")
            client.delete("bench/bad")
            note("without", seconds / 2)
    alone = late.pop("without")
    figures = [Figure(f"{what}: until it tells windows that end now", percentile(took_s, 0.5), "s")]
    for state, beside in late.items():
        for share, name in ((0.5, "median"), (0.9, "p90")):
            with_it, without = percentile(beside, share), percentile(alone, share)
            label = f"good jobs beside {what}, {state}, {name} of {len(beside)}"
            figures.append(Figure(label, with_it, "ms", f"{without:.3g} ms without", with_it / without))
    return figures


def _tells(client: Client, second: int) -> bool:
    """Whether the bad job has closed the window of this second. No client reads its rows: that costs CPU."""
    return (latest(client).get("bench/bad") or 0) >= second


def _good(late: Mapping[str, list[float]]) -> list[float]:
    return [each for name in OPERATORS for each in late.get(name, [])]


PARTS = {"operators": operators, **{part: partial(bad, part) for part in BAD}}
