"""How fast a running job changes: the paper's three levels (Figure 10b), up to the last acknowledgement.

Eight real agents on loopback under live traffic: a message to all of them, new filter functions, new map and
reduce functions. Each is asked for over HTTP, as a user's program would; the clock stops when the agent has
answered that all have acknowledged. After each change the versions of the published intervals are checked: no
interval is of two, none is lost. The second part does the same with a thousand simulated agents on virtual
time with the delays of a data centre: what it measures is hops; it counts no
computing and no disk.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.harness import Figure, percentile
from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo.fleet import Fleet
from elfmesh.errors import RuntimeFailure

AGENTS = 8
RATE_PER_S = 20.0
PAPER_MS = {"message": 10.0, "filter": 210.0, "map and reduce": 600.0}
PAPER = "ELF, Fig. 10b"
READY_S = 60.0
"""How long eight interpreters may take to find each other, or a second to be closed, on a busy machine."""

AGAIN_S = 0.2

TEXT = """CREATE JOB bench.update LATENESS '100 ms' AS
SELECT product, {what} AS value FROM clicks WHERE directory = '{directory}' AND clicks_count < {most}
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), product ORDER BY value DESC, product LIMIT 10"""
DIRECTORIES = ("Books", "Video Games")
FUNCTIONS = (
    "MAX(clicks_count + {0})",
    "COUNT(DISTINCT concat(user.location, '{0}'))",
    "AVG(clicks_count * {0})",
)
MOST = 1000
"""What the filter lets through at first; each change has another bound, so that no agent knows its text."""

SIMULATED, SIMULATED_SMALL = 1000, 40
DELAY_S = (0.0002, 0.001)
"""One way between two hosts of a data centre."""


def text(number: int, what: str = "SUM(clicks_count)") -> str:
    """A version of the job; one with another number is another filter."""
    return TEXT.format(what=what, directory=DIRECTORIES[number % len(DIRECTORIES)], most=MOST + number)


def functions(number: int) -> str:
    """Another map function and another reduce function."""
    return FUNCTIONS[number % len(FUNCTIONS)].format(number)


def real(*, small: bool) -> list[Figure]:
    """Eight agents on this machine."""
    rounds = 3 if small else 12
    with (
        tempfile.TemporaryDirectory() as directory,
        Fleet(Path(directory), AGENTS, seed=1, rate_per_s=RATE_PER_S) as fleet,
    ):
        fleet.open()
        client = connect(fleet.agents[-1].api)
        _until(lambda: len(client.get("agents")) == AGENTS, "all agents")
        fleet.traffic.start()
        _until(lambda: client.apply(text(1))["acknowledged"] == AGENTS, "the job on all agents")
        _until(lambda: _latest(client) is not None, "the first result")
        took: dict[str, list[float]] = {
            "message": [_timed(lambda: client.get("agents")) for _ in range(2 * rounds)],
            "filter": [_changed(client, text(number)) for number in range(2, rounds + 2)],
            "map and reduce": [_changed(client, text(0, functions(number))) for number in range(rounds)],
        }
        _check_versions(client, len(took["filter"]) + len(took["map and reduce"]) + 1)
    return [each for level, values in took.items() for each in _figures(f"{AGENTS} agents", level, values)]


def _until(condition: Callable[[], Any], what: str) -> None:
    """Wait for something.

    Raises:
        RuntimeFailure: it did not come.
    """
    end = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > end:
            raise RuntimeFailure(f"{what} did not come within {READY_S:g} s")
        time.sleep(AGAIN_S)


def _latest(client: Client) -> int | None:
    """The last interval that is closed."""
    latest: int | None = client.offsets("bench/update")["latest"]
    return latest


def _timed(call: Callable[[], Any]) -> float:
    began = time.perf_counter()
    call()
    return (time.perf_counter() - began) * 1000


def _changed(client: Client, new: str) -> float:
    answers: list[dict[str, Any]] = []
    took = _timed(lambda: answers.append(client.apply(new)))
    answer = answers[0]
    assert answer["acknowledged"] == answer["expected"] == AGENTS, answer
    assert answer["state"] in ("warm up", "keep"), answer
    first = answer["effective_interval"]
    _until(lambda: (_latest(client) or 0) >= first, f"interval {first} of the new version")
    return took


def _check_versions(client: Client, changes: int) -> None:
    """Every interval once, in one version, versions in order."""
    found = [(each["interval"]["index"], each["version"]) for each in client.results("bench/update")]
    indices = [index for index, _ in found]
    assert indices == list(range(indices[0], indices[0] + len(indices))), "an interval is missing"
    versions = [version for _, version in found]
    assert versions == sorted(versions), "versions go back"
    assert len(set(versions)) == changes, "a version was never in force"


def _figures(fleet: str, level: str, values: list[float]) -> list[Figure]:
    middle, most = percentile(values, 0.5), percentile(values, 0.9)
    paper = PAPER_MS[level]
    name = f"{fleet}, {level}"
    return [
        Figure(f"{name}, median", middle, "ms", PAPER, paper / middle),
        Figure(f"{name}, p90", most, "ms", PAPER, paper / most),
    ]


def simulated(*, small: bool) -> list[Figure]:
    """A thousand agents on virtual time."""
    from tests.sim.world.agents import SimFleet
    from tests.sim.world.network import Faults
    from tests.sim.world.vloop import run

    count = SIMULATED_SMALL if small else SIMULATED
    took = run(_simulate(SimFleet, Faults(*DELAY_S), count))
    return [each for level, values in took.items() for each in _figures(f"{count} simulated", level, values)]


async def _simulate(new_fleet: Any, faults: Any, count: int) -> dict[str, list[float]]:
    """The same three levels; times are virtual."""
    fleet = new_fleet(1, count, faults)
    await fleet.start()
    now = asyncio.get_running_loop().time
    job = "CREATE JOB sim.update EVERY '60 s' AS SELECT k, {what} AS n FROM log WHERE v > {least} GROUP BY k"
    answer: dict[str, Any] = {"expected": 0}
    while answer["expected"] < count:
        answer = await fleet.apply(job.format(what="SUM(v)", least=0))
        await asyncio.sleep(5.0)
    took: dict[str, list[float]] = {"message": [], "filter": [], "map and reduce": []}

    async def timed(level: str, call: Callable[[], Any]) -> Any:
        began = now()
        outcome = await call()
        took[level].append((now() - began) * 1000)
        await asyncio.sleep(1.0)
        return outcome

    for number in range(1, 4):
        await timed("message", lambda: fleet.agents[0].ask("agents", {}))
        new = job.format(what="SUM(v)", least=number)
        done = await timed("filter", partial(fleet.apply, new))
        assert done["acknowledged"] == done["expected"] == count, done
        new = job.format(what=("MAX(v)", "COUNT(v)", "AVG(v)")[number - 1], least=number)
        done = await timed("map and reduce", partial(fleet.apply, new))
        assert done["acknowledged"] == done["expected"] == count, done
    for agent in fleet.agents:
        agent.crash()
    return took


PARTS = {"real": real, "simulated": simulated}
