"""Storms of real agents, each verified: python -m tests.chaos DIRECTORY [--kills N] [--agents N]."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.chaos.storm import Storm, Weather
from tests.reliability import write_section

INTRODUCTION = """## Real processes

Real agents behind a proxy that delays, leaves out, doubles, resets and cuts; killed (SIGKILL) at random, as
masters, while they start and at named places inside seal, commit and activation; stopped (SIGSTOP) and woken;
their logs rotated every few seconds. A verifier that reads only raw logs and results (tests/chaos/verify.py)
looks at every record by name. CI runs 30 kills (tests/chaos/test_storm.py), `make chaos` 1,000.

Written by `python -m tests.chaos`.

| | |
|---|---|
"""
ROUND_KILLS = 50
"""Kills of one storm, at most: a directory of its own, verified, and thrown away if all is well."""

RESTART_CPU_S = 3.0
"""Processor time per act: an agent that starts takes one second, and the others must keep up meanwhile."""


def main() -> int:
    """Storms until there were enough kills; those that the directory knows are not done again."""
    arguments = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    arguments.add_argument("directory", type=Path)
    arguments.add_argument("--kills", type=int, default=1000)
    arguments.add_argument("--pauses", type=int, default=200)
    arguments.add_argument("--pause-max-s", type=float, default=60.0)
    arguments.add_argument("--agents", type=int, default=16)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--docs", action="store_true", help="write the figures into docs/reliability.md")
    arguments.add_argument("--keep", action="store_true", help="also what is well")
    options = arguments.parse_args()
    options.directory.mkdir(parents=True, exist_ok=True)
    done = options.directory / "storms.ndjson"
    rounds = [json.loads(line) for line in done.read_text().splitlines()] if done.exists() else []
    seed = options.seed + len(rounds)
    while (left := options.kills - sum(each["kills"] for each in rounds)) > 0:
        kills = min(ROUND_KILLS, left)
        pauses = round(options.pauses * kills / options.kills)
        weather = Weather(
            agents=options.agents,
            kills=kills,
            pauses=pauses,
            pause_s=(0.5, options.pause_max_s),
            down_max=max(2, options.agents // 4),
            every_s=max(4.0 / options.agents, RESTART_CPU_S / (os.cpu_count() or 1)),
        )
        home = options.directory / f"storm-{seed}"
        shutil.rmtree(home, ignore_errors=True)
        rounds.append(storm(home, seed, weather))
        with done.open("a") as file:
            file.write(json.dumps(rounds[-1]) + "\n")
        if rounds[-1]["ok"] and not options.keep:
            shutil.rmtree(home)
        told = ("seed", "ok", "kills", "seconds", "load", "fail_overs_s")
        print(json.dumps({key: rounds[-1][key] for key in told}), flush=True)
        seed += 1
    total = summary(rounds)
    print(json.dumps(total, indent=1))
    if options.docs:
        write_section("real processes", page(total, rounds))
    return 0 if all(each["ok"] for each in rounds) else 1


def storm(home: Path, seed: int, weather: Weather) -> dict[str, Any]:
    """One storm and what the verifier says of it, in a process of its own."""
    home.mkdir(parents=True)
    toll = Storm(home, seed, weather).run()
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
    fail_overs = sorted(each for round_ in rounds for each in round_["fail_overs_s"])
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
        "pauses": sum(each["pauses"] for each in rounds),
        "seconds": round(sum(each["seconds"] for each in rounds)),
        "records": sum(each["records"] for each in verdicts),
        "rotations": sum(each["rotations"] for each in rounds),
        "intervals": dict(states),
        "declared_missing": sum(each["declared_missing"] for each in verdicts),
        "declared_late": sum(each["declared_late"] for each in verdicts),
        "wrong": {name: sum(len(each[name]) for each in verdicts) for name in lists},
        "unexpected_deaths": sum(len(each["deaths"]) for each in rounds),
        "fail_overs": len(fail_overs),
        "fail_over_p50_s": quantile(fail_overs, 0.5),
        "fail_over_p99_s": quantile(fail_overs, 0.99),
        "acts": dict(sorted(acts.items())),
    }


def page(total: dict[str, Any], rounds: list[dict[str, Any]]) -> str:
    """The section of docs/reliability.md."""
    agents = sorted({each["agents"] for each in rounds})
    network: Counter[str] = Counter()
    for each in rounds:
        network.update(each["network"])
    figures = {
        "storms, agents in each": f"{total['storms']}, {' and '.join(map(str, agents))}",
        "cores, load of the machine": (
            f"{os.cpu_count()}, {max((each.get('load', 0) for each in rounds), default=0)} at most"
        ),
        "processes killed": f"{total['kills']:,}",
        "of them masters, on purpose": total["acts"].get("kill a master", 0),
        "of them at a fail point": sum(n for act, n in total["acts"].items() if act.startswith("at ")),
        "of them while starting": total["acts"].get("kill at start", 0),
        "processes stopped for a while": total["pauses"],
        "logs rotated": f"{total['rotations']:,}",
        "frames left out, said twice by the network": f"{network['lost']:,}, {network['doubled']:,}",
        "connections reset, half open": f"{network['reset']}, {network['half_open']}",
        "records": f"{total['records']:,}",
        "intervals": ", ".join(f"{count:,} {state}" for state, count in sorted(total["intervals"].items())),
        "records of agents named as missing": f"{total['declared_missing']:,}",
        "records declared late": f"{total['declared_late']:,}",
        **{f"**{name}**": f"**{count}**" for name, count in total["wrong"].items()},
        "agents that ended by themselves": total["unexpected_deaths"],
        "a new master answers after (median, 99th percentile)": (
            f"{total['fail_over_p50_s']} s, {total['fail_over_p99_s']} s of {total['fail_overs']}"
        ),
    }
    return INTRODUCTION + "\n".join(f"| {name} | {value} |" for name, value in figures.items())


def quantile(values: list[float], share: float) -> float | None:
    """The value that so many are not above; None of none."""
    return round(values[min(len(values) - 1, int(share * len(values)))], 3) if values else None


if __name__ == "__main__":
    sys.exit(main())
