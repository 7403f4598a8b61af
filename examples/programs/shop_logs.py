"""What the shop's examples run on: a quarter of an hour of clicks, likes and buys at three web servers."""

from __future__ import annotations

from pathlib import Path

from elfmesh.cli.demo.traffic import ShopTraffic, write_bulk
from elfmesh.cli.host.local_agents import LocalAgents

HOSTS = 3
START_US = 1_360_285_800_000_000
"""2013-02-08T01:10:00Z, when the paper's user clicks Angry Birds."""

LINES = 1800
RATE_PER_S = 2
BATCHES = 3
"""Of 300 s."""


def open_shop(
    directory: Path, agents: LocalAgents, streams: dict[str, str], *, hosts: int = HOSTS
) -> list[Path]:
    """Write the logs and start an agent beside each; `streams`: what programs insert into."""
    logs = []
    options: dict[str, list[str]] = {}
    for number in range(hosts):
        log = directory / f"web{number}.ndjson"
        traffic = ShopTraffic(number, seed=7, products=120, users=250)
        write_bulk(log, LINES, traffic, start_us=START_US, rate_per_s=RATE_PER_S)
        logs.append(log)
        options[log.stem] = ["--stream", f"clicks={log},format=json,idle=1 s"]
        for name, program in streams.items():
            options[log.stem] += ["--stream", f"{name}=program://{program},format=json,idle=1 s"]
    agents.start(options)
    return logs
