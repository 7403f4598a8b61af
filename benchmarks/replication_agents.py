"""Planned replication on real agents: what shipping costs (PPA Fig. 9), and how soon answers are back (7, 8).

`shipping` measures the processor time of a member that ships its open windows, beside that of such a member
without a standby at the same time, and the bytes that it ships beside those of its log. `agents` kills one of
16 agents, or all of a rack but the voters, and waits for the first record that contains their open windows
again. Without a standby they are started again after a second, as in the paper.

Deviation: real agents have the fan-out of the product, so their trees are two levels deep, not four.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from benchmarks.agent import cpu_s
from benchmarks.fleet import until
from benchmarks.harness import Figure
from elfmesh.errors import RuntimeFailure
from tests.e2e.fleet import Agent, Fleet

TICK_S = 0.02
SCRAMBLE = 0x9E3779B97F
"""Odd, so that different numbers have different keys, in no order that would make them small."""


class Writer:
    """Writes lines to logs at a rate, from a thread; `line` makes one from its number and the time."""

    def __init__(self, logs: list[Path], rate: float, line: Callable[[int, float], str]) -> None:
        self._logs, self._rate, self._line = logs, rate, line
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self.late_s = 0.0

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        began, made = time.time(), 0
        files = [log.open("a") for log in self._logs]
        while not self._stop.wait(TICK_S):
            now = time.time()
            due = int((now - began) * self._rate)
            text = "".join(self._line(number, now) for number in range(made, due))
            for file in files:
                file.write(text)
                file.flush()
            made = due
            self.late_s = max(self.late_s, time.time() - now)
        for file in files:
            file.close()


# -- the cost of shipping ------------------------------------------------------------------------------

LAGS = ("100 ms", "1 s", "5 s", "15 s", "30 s")
LOADS = {
    False: [(rate, keys) for rate in (1_000, 10_000) for keys in (20_000, 0)],
    True: [(1_000, 20_000)],
}
"""Lines per second, and number of keys; 0: each line has a key of its own."""

SHIPPED_S, SHIPPED_SMALL_S = 20.0, 2.0
ROUNDS = 3
WARM_S, WARM_SMALL_S = 4.0, 2.0
SHIPPING = """CREATE JOB bench.n EVERY '10 m' {} AS SELECT k, count(*) AS n FROM log GROUP BY k"""


def shipping(*, small: bool) -> list[Figure]:
    figures = []
    for rate, keys in LOADS[small]:
        for lag in LAGS[1:2] if small else LAGS:
            seconds = SHIPPED_SMALL_S if small else max(SHIPPED_S, 2 * _seconds(lag))
            clauses = ("", f"STANDBY ALL LAG '{lag}'")
            rounds = [
                _shipped(rate, keys, clauses, seconds, small=small) for _ in range(1 if small else ROUNDS)
            ]
            title = f"{rate:,}/s, {f'{keys:,}' if keys else 'unique'} keys, LAG {lag}"
            alone, used = (median(100 * each[at].used for each in rounds) for at in (0, 1))
            more = median(ships.used / beside.used for beside, ships in rounds)
            sent = median(100 * ships.sent / ships.log for _, ships in rounds)
            figures.append(Figure(f"{title}: processor without a standby", alone, "% of a core"))
            figures.append(Figure(f"{title}: processor", used, "% of a core", "none", more))
            why = "" if sent else "0: no delta in this time"
            figures.append(Figure(f"{title}: shipped", sent, "% of the log's bytes", skipped=why))
    return figures


def _seconds(lag: str) -> float:
    amount, unit = lag.split()
    return float(amount) / (1000 if unit == "ms" else 1)


class Shipped(NamedTuple):
    """The share of a core that a member takes, the bytes that it ships, and those of its log."""

    used: float
    sent: int
    log: int


def _shipped(rate: int, keys: int, clauses: Sequence[str], seconds: float, *, small: bool) -> list[Shipped]:
    """Measure a member with each clause at the same time, because the load of the machine changes."""

    def line(number: int, now: float) -> str:
        key = (number * 7919 % keys if keys else number) * SCRAMBLE % 2**40
        return (
            f'{{"ts": {now:.3f}, "k": "/products/{key:010x}", "status": 200, "bytes": {number % 9973},'
            f' "host": "10.0.{number % 256}.7", "method": "GET", "protocol": "HTTP/1.1"}}\n'
        )

    with contextlib.ExitStack() as stack:
        fleets = []
        for clause in clauses:
            fleet = stack.enter_context(Fleet(Path(stack.enter_context(tempfile.TemporaryDirectory()))))
            fleet.start(2, options=",format=json,idle=1 h")
            fleet[0].apply(SHIPPING.format(clause))
            until(partial(_are_members, fleet), "both members")
            fleets.append(fleet)
        stack.enter_context(Writer([fleet.log(1) for fleet in fleets], rate, line))
        for fleet, clause in zip(fleets, clauses, strict=True):
            if clause:
                until(partial(_own_standby, fleet[1]), "a standby")
        lag_s = 0.0 if small else max(_seconds(clause.split("'")[1]) for clause in clauses if clause)
        time.sleep((WARM_SMALL_S if small else WARM_S) + lag_s)
        began, before = time.monotonic(), [_totals(fleet) for fleet in fleets]
        time.sleep(seconds)
        lasted, after = time.monotonic() - began, [_totals(fleet) for fleet in fleets]
    found = [
        Shipped((now.used - then.used) / lasted, now.sent - then.sent, now.log - then.log)
        for then, now in zip(before, after, strict=True)
    ]
    if found[0].log < 0.9 * rate * lasted * len(line(0, time.time())):
        raise RuntimeFailure(f"this host cannot write {rate:,} lines per second")
    return found


def _are_members(fleet: Fleet) -> bool:
    return len(fleet[0].get("/v1/jobs/bench/n")["roster"]["agents"]) == 2


def _totals(fleet: Fleet) -> Shipped:
    """Return the processor seconds of the member and the bytes until now."""
    member = fleet[1]
    assert member.process is not None
    return Shipped(cpu_s(member.process.pid), _sent(member), fleet.log(1).stat().st_size)


def _own_standby(member: Agent) -> Any:
    return member.get("/v1/agent")["standbys"]["jobs"].get("bench/n", {}).get("standby")


def _sent(member: Agent) -> int:
    return int(member.get("/v1/agent")["control_stats"].get("control.shipped_bytes", 0))


# -- recovery ------------------------------------------------------------------------------------------

AGENTS, RACKS = {False: 16, True: 4}, 2
RATES, SIZES_S = {False: (100, 200), True: (20,)}, {False: (10, 30), True: (10,)}
CLAUSES = {
    False: {
        "log alone": "",
        "passive": "REPLICAS 1",
        "active, LAG 100 ms": "STANDBY ALL ACROSS rack LAG '100 ms'",
        "active, LAG 1 s": "STANDBY ALL ACROSS rack LAG '1 s'",
        "active, LAG 5 s": "STANDBY ALL ACROSS rack LAG '5 s'",
    },
    True: {"active, LAG 100 ms": "STANDBY ALL ACROSS rack LAG '100 ms'"},
}
BACK_S, BACK_MAX_S, POLL_S = 1.0, 120.0, 0.05
JOB = """CREATE JOB bench.n DEADLINE '500 ms' HORIZON '60 s' {} AS SELECT id, count(*) AS n FROM log
WHERE id % 2 = 0 GROUP BY HOP(ts, INTERVAL '1' SECOND, INTERVAL '{}' SECOND), id"""
"""Each record is a group of its own, and half of them pass the filter."""


def agents(*, small: bool) -> list[Figure]:
    figures = []
    for rate in RATES[small]:
        for size_s in SIZES_S[small]:
            for name, clause in CLAUSES[small].items():
                for many in (False,) if small else (False, True):
                    took, share, behind = _recovered(AGENTS[small], rate, size_s, clause, many=many)
                    lost = "a rack" if many else "one agent"
                    title = f"{lost} killed, windows of {size_s} s, {rate}/s each, {name}"
                    figures.append(Figure(f"{title}: until its windows are in a record", took, "s"))
                    figures.append(Figure(f"{title}: of these, after the window's end", behind, "s"))
                    figures.append(Figure(f"{title}: fidelity of that record", share, "1"))
    return figures


def _recovered(count: int, rate: int, size_s: int, clause: str, *, many: bool) -> tuple[float, float, float]:
    """Return the seconds from a kill to the first record with the victims' windows, and its fidelity.

    The third number is the seconds since the end of the record's window, of which DEADLINE is 0.5.
    """
    with tempfile.TemporaryDirectory() as place, Fleet(Path(place)) as fleet:
        for number in range(count):
            fleet.start(1, options=",format=json", extra=["--label", f"rack=r{number % RACKS}"])
        fleet[0].apply(JOB.format(clause, size_s))
        job = "/v1/jobs/bench/n"
        until(lambda: len(fleet[0].get(job)["roster"]["agents"]) == count, "all members")
        with Writer([fleet.log(number) for number in range(count)], rate, _numbered):
            if "STANDBY" in clause:
                until(
                    lambda: all(each.get("standby") for each in fleet[0].get(job)["roster"]["agents"]),
                    "all standbys",
                )
            time.sleep(size_s + 2.0)
            described = fleet[0].get(job)
            first, voters = described["collecting"]["index"], {*described["voters"]}
            spared = {agent.name for agent in fleet if agent.overlay in voters} | {described["master"]}
            free = [agent for agent in fleet if agent.name not in spared]
            rack = max(range(RACKS), key=lambda each: sum(agent.number % RACKS == each for agent in free))
            down = [agent for agent in free if agent.number % RACKS == rack]
            down = down if many else down[:1]
            names, left = {agent.name for agent in down}, [agent for agent in fleet if agent not in down]
            killed_at, began = time.time(), time.monotonic()
            for agent in down:
                agent.kill()
            if "STANDBY" not in clause:
                time.sleep(BACK_S)
                for agent in down:
                    agent.start([left[0].overlay])

            end = time.monotonic() + BACK_MAX_S
            while (found := _fidelity_with(left[0], first, names, killed_at)) is None:
                if time.monotonic() > end:
                    raise RuntimeFailure(f"{clause or 'log alone'}: no record has the victims' windows")
                time.sleep(POLL_S)
            share, end_s = found
            return time.monotonic() - began, share, max(0.0, time.time() - end_s)


def _numbered(number: int, now: float) -> str:
    return f'{{"ts": {now:.3f}, "id": {number}}}\n'


def _fidelity_with(agent: Agent, first: int, names: set[str], at_s: float) -> tuple[float, float] | None:
    """Return the fidelity and end of the first record of a window with a time and the agents; None yet."""
    query = f"from={first}&limit=50&state=all&rows=0"
    for line in agent.ask("GET", f"/v1/jobs/bench/n/results?{query}").splitlines():
        each = json.loads(line)
        inside = names - {*each["agents"]["missing"]}
        inside |= names & {one["agent"] for one in each["agents"].get("partly", ())}
        if _epoch(each["interval"]["start"]) < at_s < _epoch(each["interval"]["end"]) and inside == names:
            return float(each["fidelity"]), _epoch(each["interval"]["end"])
    return None


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


PARTS = {"shipping": shipping, "agents": agents}
