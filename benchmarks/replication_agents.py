"""Planned replication on real agents: what shipping costs (PPA Fig. 9), and how soon answers are back (7, 8).

`shipping` measures the processor time of a member that ships its open windows, beside that of the same member
without a standby, and the bytes that it ships beside those of its log. `agents` kills one of 16 agents, or
all of a rack but the voters, and waits for the first record that contains their open windows again. Without a
standby they are started again after a second, as in the paper.

Deviation: real agents have the fan-out of the product, so their trees are two levels deep, not four.
"""

from __future__ import annotations

import json
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

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
WARM_S, WARM_SMALL_S = 4.0, 2.0
SHIPPING = """CREATE JOB bench.n EVERY '10 m' {} AS SELECT k, count(*) AS n FROM log GROUP BY k"""


def shipping(*, small: bool) -> list[Figure]:
    figures = []
    for rate, keys in LOADS[small]:
        what = f"{rate:,}/s, {f'{keys:,}' if keys else 'unique'} keys"
        alone, _, _ = _shipped(rate, keys, "", SHIPPED_SMALL_S if small else SHIPPED_S, small=small)
        figures.append(Figure(f"{what}, no standby: processor", 100 * alone, "% of a core"))
        for lag in LAGS[1:2] if small else LAGS:
            seconds = SHIPPED_SMALL_S if small else max(SHIPPED_S, 2 * _seconds(lag))
            used, sent, log = _shipped(rate, keys, f"STANDBY ALL LAG '{lag}'", seconds, small=small)
            title = f"{what}, LAG {lag}"
            figures.append(Figure(f"{title}: processor", 100 * used, "% of a core", "none", used / alone))
            why = "" if sent else "0: no delta in this time"
            figures.append(Figure(f"{title}: shipped", 100 * sent / log, "% of the log's bytes", skipped=why))
    return figures


def _seconds(lag: str) -> float:
    amount, unit = lag.split()
    return float(amount) / (1000 if unit == "ms" else 1)


def _shipped(rate: int, keys: int, clause: str, seconds: float, *, small: bool) -> tuple[float, int, int]:
    """Return the share of a core that a member takes, the bytes that it ships, and those of its log."""

    def line(number: int, now: float) -> str:
        key = (number * 7919 % keys if keys else number) * SCRAMBLE % 2**40
        return (
            f'{{"ts": {now:.3f}, "k": "/products/{key:010x}", "status": 200, "bytes": {number % 9973},'
            f' "host": "10.0.{number % 256}.7", "method": "GET", "protocol": "HTTP/1.1"}}\n'
        )

    with tempfile.TemporaryDirectory() as place, Fleet(Path(place)) as fleet:
        fleet.start(2, options=",format=json,idle=1 h")
        fleet[0].apply(SHIPPING.format(clause))
        until(lambda: len(fleet[0].get("/v1/jobs/bench/n")["roster"]["agents"]) == 2, "both members")
        member = fleet[1]
        assert member.process is not None
        with Writer([fleet.log(1)], rate, line):
            if clause:
                until(lambda: _own_standby(member), "a standby")
            time.sleep((WARM_SMALL_S if small else WARM_S) + (0 if small or not clause else _lag_of(clause)))
            used, sent, log = cpu_s(member.process.pid), _sent(member), fleet.log(1).stat().st_size
            began = time.monotonic()
            time.sleep(seconds)
            lasted = time.monotonic() - began
            used, sent = cpu_s(member.process.pid) - used, _sent(member) - sent
            log = fleet.log(1).stat().st_size - log
        if log < 0.9 * rate * lasted * len(line(0, time.time())):
            raise RuntimeFailure(f"this host cannot write {rate:,} lines per second")
        return used / lasted, sent, log


def _lag_of(clause: str) -> float:
    return _seconds(clause.split("'")[1])


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
                    took, share = _recovered(AGENTS[small], rate, size_s, clause, many=many)
                    lost = "a rack" if many else "one agent"
                    title = f"{lost} killed, windows of {size_s} s, {rate}/s each, {name}"
                    figures.append(Figure(f"{title}: until its windows are in a record", took, "s"))
                    figures.append(Figure(f"{title}: fidelity of that record", share, "1"))
    return figures


def _recovered(count: int, rate: int, size_s: int, clause: str, *, many: bool) -> tuple[float, float]:
    """Return the seconds from a kill to the first record with the victims' windows, and its fidelity."""
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
            return time.monotonic() - began, found


def _numbered(number: int, now: float) -> str:
    return f'{{"ts": {now:.3f}, "id": {number}}}\n'


def _fidelity_with(agent: Agent, first: int, names: set[str], at_s: float) -> float | None:
    """Return the fidelity of the first record of a window that contains a time and the agents; None yet."""
    query = f"from={first}&limit=50&state=all&rows=0"
    for line in agent.ask("GET", f"/v1/jobs/bench/n/results?{query}").splitlines():
        each = json.loads(line)
        inside = names - {*each["agents"]["missing"]}
        inside |= names & {one["agent"] for one in each["agents"].get("partly", ())}
        if _epoch(each["interval"]["start"]) < at_s < _epoch(each["interval"]["end"]) and inside == names:
            return float(each["fidelity"])
    return None


def _epoch(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


PARTS = {"shipping": shipping, "agents": agents}
