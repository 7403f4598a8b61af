"""One term of a master: what it says of the job, and that it ends for good."""

from __future__ import annotations

from msgspec.structs import replace

from elfmesh.control.register.changes import ChangeRefused
from tests.control.harness import World
from tests.control.master.led import running, update
from tests.control.register.support import JOB


def test_a_term_that_is_over_does_not_end_the_one_that_follows_it() -> None:
    """An exchange of voters may be refused late, because its epoch is over by then."""
    world, master = running()
    term = master.term
    update(world)
    assert (term.leads(), term.is_open, master.term.leads()) == (False, False, True)
    term.elected(ChangeRefused("another epoch", None))
    term.deposed(ChangeRefused("another epoch", None))
    world.run(1.0)
    assert list(world.master().control.leadership.masters.values()) == [master]
    master.term.deposed(ChangeRefused("another master", None))
    assert not any(agent.control.leadership.masters for agent in world.living)


def test_the_state_of_a_job_is_named() -> None:
    world = World(2, streams=("other",))
    assert world.apply(world[0]).status == 200
    (master,) = world.master().control.leadership.masters.values()
    assert master.term.state == "waiting for agents"
    world.add(7)
    world.run(2.0)
    assert master.term.state == "running"
    world.ask(world[0], "pause", {"job": "shop/top"})
    assert master.term.state == "paused"
    master.term.end(lambda over: None)
    assert master.term.state == "stopping"


def test_a_pause_is_counted_once_and_is_a_new_roster() -> None:
    _, master = running()
    version = master.term.terms.version
    master.term.pause(True)
    master.term.pause(True)
    terms = master.term.terms
    assert (terms.paused, terms.pauses, terms.version) == (True, 1, version + 1)
    assert master.term.closer.paused


def test_while_terms_are_voted_on_no_other_change_is_spread() -> None:
    _, master = running()
    term = master.term
    promised = replace(term.terms, version=term.book.version + 1)
    term.promise(promised)
    assert term.newest == promised
    term.context.out.clear()
    term.changed()
    assert term.context.out == []


def test_a_new_term_looks_at_once_whether_members_live_that_the_overlay_has_lost() -> None:
    world = World(5)
    world.apply(world[0])
    world.run(5.0)
    before = world.master()
    entry = before.control.leadership.masters[JOB].term.book.of(before.me.id)
    world.kill(before)
    world.run(20.0)
    after = world.master()
    assert after is not before
    term = after.control.leadership.masters[JOB].term
    assert entry is not None
    assert term.collection.straggler_policy.dead == (entry.number,), "no interval has waited for it yet"
