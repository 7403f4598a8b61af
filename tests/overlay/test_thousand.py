"""The figures of design: a thousand agents in one process."""

from __future__ import annotations

import pytest

from tests.exhaustive import few
from tests.overlay.crowd import Crowd


@pytest.mark.slow
@pytest.mark.parametrize("agents", few((200, 1000), 1))
def test_agents_agree_on_the_closest_before_and_after_a_fifth_has_died(agents: int) -> None:
    crowd = Crowd(agents, seed=1, every_s=0.004)
    assert len(crowd.joined) >= 0.99 * agents
    assert crowd.network.sent / 2 / agents < 120, "requests per join"
    crowd.network.run_for(2)
    for key, found in crowd.look_ups(100, wait_s=2):
        n = int.from_bytes(key)
        assert [c.id for c in found] == sorted(crowd.alive, key=lambda id: int.from_bytes(id) ^ n)[:8]
    for _ in range(100):
        crowd.route(crowd.rng.choice(crowd.alive), crowd.rng.randbytes(20))
    crowd.network.run_for(2)
    assert len(crowd.delivered) == 100
    assert all(contact.id == crowd.closest(d.key) for contact, d in crowd.delivered)
    crowd.kill(agents // 5)
    crowd.network.run_for(5)
    alive = set(crowd.alive)
    for key, found in crowd.look_ups(100, wait_s=4):
        assert {c.id for c in found} <= alive
        assert found[0].id == crowd.closest(key)
