"""What ends while an agent leaves: its job, or the agent itself (D-14)."""

from __future__ import annotations

from typing import Any

from elfmesh.control.closing.eviction import EVICT_S
from tests.control.clicks import BASE, SLIDE
from tests.control.election.test_drain import leads, started, states
from tests.control.harness import World
from tests.control.member.support import TEXT


class _Rooted(dict[bytes, None]):
    """Subscribers of a tree whose root stays until it has heard all answers, as in a real forest."""

    def pop(self, key: bytes, *default: Any) -> None:
        if len(self) > 1:
            super().pop(key, *default)


def test_a_delete_counts_a_leaver_that_has_stopped_too() -> None:
    world, leaver = started(3)
    job = leads(world).job
    world.subscribed[job] = _Rooted(world.subscribed[job])
    world.request(leaver, "leave")
    world.run(1.0)
    notified = world.ask(world.master(), "delete", {"job": "shop/top"}).body
    assert (notified["acknowledged"], notified["expected"]) == (3, 3)


def test_a_delete_counts_members_and_not_the_root_that_is_none() -> None:
    world = World(3)
    world.apply(world[0], TEXT.replace("FROM clicks", "FROM clicks ON (role = 'nobody')"))
    world.run(1.0)
    master = world.master()
    job = leads(world).job
    world.subscribed[job] = _Rooted({master.me.id: None})
    world.run(1.0)
    notified = world.ask(master, "delete", {"job": "shop/top"}).body
    assert (notified["acknowledged"], notified["expected"]) == (0, 0)


def test_a_leaver_that_dies_is_forgotten_once_and_with_its_last_interval() -> None:
    world, leaver = started()
    world.add(9)
    world.run(3.0)
    world.request(leaver, "leave")
    world.run(1.0)
    world.kill(leaver)
    world.seal_all(BASE + 8 * SLIDE)
    world.run(30.0)
    master = leads(world)
    assert any(state == "FINAL_PARTIAL" for state, _ in states(world))
    assert master.term.collection.straggler_policy.dead
    version = master.term.book.version
    world.run(EVICT_S)
    world.seal_all(BASE + 9 * SLIDE)
    world.run(5.0)
    assert leads(world) is master
    assert master.term.book.version == version
    assert not master.term.collection.straggler_policy.dead
