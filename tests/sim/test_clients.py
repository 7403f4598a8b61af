"""What clients of whole agents are told could have happened one after the other, whichever agent leads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from unittest import mock

import pytest

from elfmesh.control.protocol.events import Reply
from tests.exhaustive import few
from tests.linearizable import CHANGES, READS, Asked, explain
from tests.sim.swarm.clients import JOB
from tests.sim.swarm.disk import SimOS
from tests.sim.swarm.fleet import Swarm
from tests.sim.swarm.install import SimPath, installed
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import Scenario, draw
from tests.sim.swarm.shapes import CLIENTS, small
from tests.sim.swarm.soak import quiet
from tests.sim.world import vloop

pytestmark = [pytest.mark.apart]


def histories(seed: int, **changes: Any) -> list[Asked]:
    """What clients asked for and were told in a run that holds every invariant."""
    quiet()
    out = run(replace(CLIENTS(draw(seed)), **changes))
    assert check(out) == {}
    return out.history.clients.asked[JOB]


@pytest.mark.parametrize("seed", few(range(12), 2))
def test_answers_to_clients_are_linearizable(seed: int) -> None:
    asked = histories(seed)
    assert any(each.verb in CHANGES and each.is_known for each in asked)
    assert any(each.verb in READS and each.is_known for each in asked)


@pytest.mark.parametrize(
    "notified", [{"version": 1000}, {"text": "CREATE JOB sim.changes AS SELECT 1"}], ids=["version", "text"]
)
def test_a_history_with_one_answer_that_cannot_have_been_given_is_found(notified: dict[str, Any]) -> None:
    asked = histories(1, faults=(), clients=1, safety_s=25.0)
    read = max(at for at, each in enumerate(asked) if each.verb == "describe" and each.status == 200)
    begun = asked[: read + 1]
    assert explain(begun) == ""
    begun[read] = replace(begun[read], body={**begun[read].body, **notified})
    assert explain(begun).startswith("cannot have happened: describe")


async def _deleted_though_applied(scenario: Scenario, system: SimOS, path: type[SimPath]) -> None:
    swarm = Swarm(scenario, system, path, None)
    await swarm.begin()
    while not swarm.current:
        assert await swarm.apply(scenario.jobs[0], founding=True)
    (name,) = swarm.current
    asked: Callable[[str, dict[str, Any]], Awaitable[Reply | None]] = swarm.ask

    async def ask(verb: str, body: dict[str, Any]) -> Reply | None:
        if verb == "delete":  # another client is answered first
            assert await swarm.apply(scenario.jobs[0])
            assert name in swarm.current
        return await asked(verb, body)

    with mock.patch.object(swarm, "ask", ask):
        await swarm.change_job()
    assert name not in swarm.current
    await swarm.end()


def test_a_job_that_is_applied_while_it_is_deleted_is_expected_no_more() -> None:
    quiet()
    scenario = replace(small()(draw(0)), faults=())
    scenario, system = replace(scenario, jobs=scenario.jobs[:1]), SimOS()
    with installed(system, scenario.poll_s, scenario.read_bytes) as path:
        vloop.run(_deleted_though_applied(scenario, system, path))
