"""What clients of whole agents are told could have happened one after the other, whichever agent leads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.exhaustive import few
from tests.linearizable import CHANGES, READS, Asked, explain
from tests.sim.swarm.clients import JOB
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.shapes import CLIENTS
from tests.sim.swarm.soak import quiet

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
