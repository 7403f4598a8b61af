"""Storms of real agents, each verified: python -m tests.chaos DIRECTORY [--kills N] [--agents N]."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.rack_storm import RackStorm, rack_weather
from tests.chaos.storm import Storm, Weather
from tests.reliability import write_section

INTRODUCTION = """## Real processes

Real agents behind a proxy that delays, leaves out, doubles, resets and cuts; killed (SIGKILL) at random, as
masters, while they start and at named places inside seal, commit and activation; stopped (SIGSTOP) and woken;
their logs rotated every few seconds. Each is a process of its own, forked from one that has imported what
agents import. A verifier that reads only raw logs and results (tests/chaos/verify.py) looks at every record
by name, and adds up the buckets: each record is in exactly one, a row, `late_dropped`, `expired` or a dead
letter whose outcome is unknown. Clients change a job of their own meanwhile; what they are told has to be
linearizable (tests/linearizable.py). `make test-all` runs 16
kills (tests/chaos/test_storm.py), `make chaos` 1,000 and kills 100 racks at once.

Written by `python -m tests.chaos`.

| | |
|---|---|
"""
QUIET = """
How long it takes, measured by `python -m tests.chaos.failover` with 8 agents and intervals of a second, while
nothing of the same priority runs on the machine; the same verifier looks at it afterwards. Storms are not
timed: nothing is waited for in them but conditions.

| | median | 99th percentile | most | times | load at most |
|---|---|---|---|---|---|
"""
WAITS = {
    ("killed", "answers"): "a master is killed: another one answers",
    ("killed", "results"): "a master is killed: the next result can be read",
    ("silent", "answers"): "a master falls silent (SIGSTOP): another one answers",
    ("skipped", "decided"): "a straggler's deadline is over: its master decides to leap over it",
}
ROUND_KILLS, ROUND_S = 150, 75.0
"""Kills and seconds of one storm, at most; its directory is verified, and thrown away if all is well."""

ROUND_RACKS = 10
"""Racks that are killed for a while in one storm; then one is killed for good."""

SIZES = (8, 6, 16)
"""Agents of one storm after the other."""

SEEDS_APART = 10_000
"""Between the first seeds of storms that go on side by side."""

ACTS_PER_AGENT_S = 0.25
"""Faults: more, and jobs would hardly go on between them."""


def main() -> int:
    """Storms until there were enough kills; those that the directory knows are not done again."""
    arguments = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    arguments.add_argument("directory", type=Path)
    arguments.add_argument("--kills", type=int, default=1000)
    arguments.add_argument("--rack-kills", type=int, default=0, help="kill so many racks, and nothing else")
    arguments.add_argument("--pauses", type=int, default=200)
    arguments.add_argument("--pause-max-s", type=float, default=60.0)
    arguments.add_argument("--agents", type=int, help="in each storm, instead of 6 to 16")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--at-once", type=int, default=1, help="storms that go on side by side")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no storm after so long")
    arguments.add_argument("--storm-s", type=float, default=ROUND_S, help="seconds of one storm")
    arguments.add_argument("--docs", action="store_true", help="write the figures into docs/reliability.md")
    arguments.add_argument("--keep", action="store_true", help="also what is well")
    options = arguments.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    others = [subprocess.Popen(beside(options, number)) for number in range(1, options.at_once)]
    try:
        until_enough(options)
    finally:
        for other in others:
            other.wait()
    rounds = everything(options.directory)
    if rounds and options.at_once:
        total = summary(rounds)
        print(json.dumps(total, indent=1))
        if options.docs:
            write_section("real processes", page(total, rounds, read(options.directory / "failover.ndjson")))
    return 0 if all(each["ok"] for each in rounds) else 1


def beside(options: argparse.Namespace, number: int) -> list[str]:
    """The command of another one like this, which says nothing in the end."""
    words = [sys.executable, "-m", "tests.chaos", str(options.directory), "--at-once", "0"]
    for name in ("kills", "rack_kills", "pauses", "pause_max_s", "agents", "seconds", "storm_s"):
        if (value := getattr(options, name)) is not None:
            words += [f"--{name.replace('_', '-')}", str(value)]
    return [*words, "--seed", str(options.seed + number * SEEDS_APART), *(["--keep"] if options.keep else [])]


def until_enough(options: argparse.Namespace) -> None:
    """One storm after the other."""
    done = options.directory / f"storms-{options.seed}.ndjson"
    end = time.monotonic() + options.seconds
    while (weather := next_weather(options, everything(options.directory))) and time.monotonic() < end:
        seed = options.seed + len(read(done))
        home = options.directory / f"storm-{seed}"
        shutil.rmtree(home, ignore_errors=True)
        found = storm(home, seed, weather)
        with done.open("a") as file:
            file.write(json.dumps(found) + "\n")
        if found["ok"] and not options.keep:
            shutil.rmtree(home)
        notified = ("seed", "ok", "agents", "kills", "racks", "pauses", "seconds", "settled_s", "load")
        print(json.dumps({key: found[key] for key in notified}), flush=True)


def everything(directory: Path) -> list[dict[str, Any]]:
    """All storms so far, of all that go on side by side."""
    return [each for path in sorted(directory.glob("storms-*.ndjson")) for each in read(path)]


def read(path: Path) -> list[dict[str, Any]]:
    """What was written so far, a line each."""
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def next_weather(options: argparse.Namespace, rounds: list[dict[str, Any]]) -> Weather | None:
    """What the next storm is made of; None if there were enough."""
    if options.rack_kills:
        racks = options.rack_kills - sum(each["racks"] for each in rounds)
        return rack_weather(min(ROUND_RACKS, racks), options.storm_s) if racks > 0 else None
    kills = options.kills - sum(each["kills"] for each in rounds)
    pauses = options.pauses - sum(each["pauses"] for each in rounds)
    if kills <= 0 and pauses <= 0:
        return None
    agents = options.agents or SIZES[len(rounds) % len(SIZES)]
    share = min(1.0, ROUND_KILLS / max(1, kills))
    return Weather(
        agents=agents,
        kills=max(0, min(ROUND_KILLS, kills)),
        pauses=max(0, math.ceil(pauses * share)),
        seconds=options.storm_s,
        pause_s=(0.3, options.pause_max_s),
        down_s=(0.0, 0.8),
        down_max=max(2, agents // 3),
        every_s=1 / (ACTS_PER_AGENT_S * min(agents, 12)),
    )


def storm(home: Path, seed: int, weather: Weather) -> dict[str, Any]:
    """One storm and what the verifier says of it, in a process of its own."""
    home.mkdir(parents=True)
    toll = (RackStorm if weather.racks else Storm)(home, seed, weather).run()
    command = [sys.executable, "-m", "tests.chaos.verify", str(home)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout:
        raise AssertionError(f"the verifier failed: {done.stderr[-3000:]}")
    verdict = json.loads(done.stdout)
    load = round(os.getloadavg()[1], 1)
    ok = done.returncode == 0 and not toll.deaths
    return {"seed": seed, "ok": ok, "agents": weather.agents, "load": load, **vars(toll), "verdict": verdict}


def summary(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """All storms together."""
    verdicts = [round_["verdict"] for round_ in rounds]
    acts: Counter[str] = Counter()
    states: Counter[str] = Counter()
    for round_ in rounds:
        acts.update(round_["acts"])
        states.update(round_["verdict"]["states"])
    lists = [name for name, value in verdicts[0].items() if isinstance(value, list)]
    return {
        "storms": len(rounds),
        "kills": sum(each["kills"] for each in rounds),
        "racks": sum(each["racks"] for each in rounds),
        "pauses": sum(each["pauses"] for each in rounds),
        "seconds": round(sum(each["seconds"] for each in rounds)),
        "records": sum(each["records"] for each in verdicts),
        "rotations": sum(each["rotations"] for each in rounds),
        "intervals": dict(states),
        "declared_missing": sum(each["declared_missing"] for each in verdicts),
        "declared_late": sum(each["declared_late"] for each in verdicts),
        "declared_expired": sum(each["declared_expired"] for each in verdicts),
        "in_prefixes": sum(each["in_prefixes"] for each in verdicts),
        "asked": sum(each["asked"] for each in verdicts),
        "settled": sum(each["settled"] for each in verdicts),
        "wrong": {name: sum(len(each[name]) for each in verdicts) for name in lists},
        "unexpected_deaths": sum(len(each["deaths"]) for each in rounds),
        "fail_overs": sum(len(each["fail_overs_s"]) for each in rounds),
        "acts": dict(sorted(acts.items())),
    }


def page(total: dict[str, Any], rounds: list[dict[str, Any]], times: list[dict[str, Any]]) -> str:
    """The section of docs/reliability.md."""
    agents = sorted({each["agents"] for each in rounds})
    network: Counter[str] = Counter()
    for each in rounds:
        network.update(each["network"])
    acts = total["acts"]
    figures = {
        "storms, agents in each": f"{total['storms']}, {' or '.join(map(str, agents))}",
        "minutes; cores, load of the machine": (
            f"{total['seconds'] / 60:.0f}; {os.cpu_count()}, {max(each['load'] for each in rounds)} at most"
        ),
        "processes killed": f"{total['kills']:,}",
        "of them masters, on purpose": acts.get("kill a master", 0),
        "of them several at the same moment": acts.get("kill several", 0),
        "of them at a fail point": sum(n for act, n in acts.items() if act.startswith("at ")),
        "of them while starting": acts.get("kill at start", 0),
        "processes stopped for a while": total["pauses"],
        "agents cut off, in one direction": f"{acts.get('cut', 0)}, {acts.get('cut one way', 0)}",
        "logs rotated": f"{total['rotations']:,}",
        "frames left out, said twice by the network": f"{network['lost']:,}, {network['doubled']:,}",
        "connections reset, half open": f"{network['reset']:,}, {network['half_open']:,}",
        "masters that were followed by another": f"{total['fail_overs']:,}",
        "records": f"{total['records']:,}",
        "intervals": ", ".join(f"{count:,} {state}" for state, count in sorted(total["intervals"].items())),
        "records of agents named as missing": f"{total['declared_missing']:,}",
        "records declared late": f"{total['declared_late']:,}",
        "records of both jobs whose buckets were added up": f"{total['settled']:,}",
        "requests of clients that change a job": f"{total['asked']:,}",
        "of them declared expired": f"{total['declared_expired']:,}",
        **{f"**{name}**": f"**{count}**" for name, count in total["wrong"].items()},
        "agents that ended by themselves": total["unexpected_deaths"],
    }
    table = "\n".join(f"| {name} | {value} |" for name, value in figures.items())
    return f"{INTRODUCTION}{table}\n{quiet_page(times)}" if times else INTRODUCTION + table


def quiet_page(times: list[dict[str, Any]]) -> str:
    """What was measured with nothing else going on."""
    rows = []
    for (kind, name), what in WAITS.items():
        runs = [each for each in times if each["kind"] == kind and each[name]]
        values = sorted(value for each in runs for value in each[name])
        if values:
            load = max(value for each in runs for value in each["load"])
            notified = " | ".join(f"{quantile(values, share):.3g} s" for share in (0.5, 0.99))
            rows.append(f"| {what} | {notified} | {values[-1]:.3g} s | {len(values)} | {load} |")
    return QUIET + "\n".join(rows)


def quantile(values: list[float], share: float) -> float | None:
    """The value that so many are not above; None of none."""
    return round(values[min(len(values) - 1, int(share * len(values)))], 3) if values else None


if __name__ == "__main__":
    sys.exit(main())
