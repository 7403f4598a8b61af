"""A master lives across the versions of its job: what it keeps is declared, all else begins with a term."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from enum import Enum

import msgspec

from elfmesh.control.protocol.messages import Rate, Report
from elfmesh.machine import Contact
from tests.control.clicks import BASE, SLIDE, exact
from tests.control.master.led import running, update

KEPT = {
    "context", "copy", "proposer", "voters", "tally", "rates", "accuracy", "errors", "costs",
    "_leadership",
}  # fmt: skip
"""What a master keeps at a change of the version; all else is in its `term`."""

IMMUTABLE = (int, float, str, bytes, type(None), Enum, msgspec.Struct, Contact)


def is_immutable(value: object) -> bool:
    frozen = getattr(getattr(type(value), "__dataclass_params__", None), "frozen", False)
    return frozen or isinstance(value, IMMUTABLE)


def inside(value: object) -> Iterator[object]:
    """What an object refers to: its attributes, or its elements."""
    if isinstance(value, dict):
        yield from value.values()
    elif isinstance(value, list | tuple | deque):
        yield from value
    else:
        yield from vars(value).values() if hasattr(value, "__dict__") else ()


def parts(root: object, kept: set[int]) -> dict[int, object]:
    """Return the mutable objects of the control machine that `root` reaches without an object in `kept`."""
    found: dict[int, object] = {}
    seen, left = {*kept}, [root]
    while left:
        value = left.pop()
        if id(value) in seen or is_immutable(value) or callable(value):
            continue
        seen.add(id(value))
        if type(value).__module__.startswith("elfmesh.control"):
            found[id(value)] = value
        left += inside(value)
    return found


def test_each_part_is_kept_by_the_master_or_begins_with_the_term() -> None:
    world, master = running()
    assert set(vars(master)) == {*KEPT, "term"}
    kept = {name: vars(master)[name] for name in KEPT}
    ids = {id(value) for value in kept.values() if not is_immutable(value)} | {id(master)}
    term = master.term
    attributes, before = dict(vars(term)), parts(term, ids)
    assert len(before) > 30
    update(world)
    assert list(world.master().control.leadership.masters.values()) == [master]
    assert master.term is not term
    assert {name: vars(master)[name] for name in KEPT} == kept
    again = {name for name, value in attributes.items() if vars(master.term)[name] is value}
    shared = {name for name in again if not is_immutable(attributes[name])}
    assert shared == {"_master", "context", "copy", "proposer", "tally"}, "these are the master's"
    after = parts(master.term, ids)
    assert [value for at, value in before.items() if at in after] == []


def test_what_people_are_shown_goes_on_with_the_next_version() -> None:
    world, master = running()
    number = master.term.book.active[0].number
    leader = world.master()
    leader.control.dispatcher._on_rate(leader.me, Rate(master.job, master.term.epoch, number, 7.0), b"")
    master.term.members.on_report(Report(master.job, "agent-0", ("a line",), ""))
    master.term.closer.errors.append("interval 7: no memory")
    update(world)
    assert list(master.tally.samples) == ["agent-0: a line"]
    assert list(master.term.closer.errors) == ["interval 7: no memory"]
    assert master.term.collection._term.rates is master.rates
    assert master.rates.of(number, 0) == 7.0
    counted = sum(master.tally.totals.values())
    assert counted > 0
    world.seal_all(BASE + 8 * SLIDE)
    world.run(2.0)
    assert sum(master.tally.totals.values()) > counted
    exact(world, world[1])


def test_a_version_begins_a_term_in_the_next_epoch_with_the_log_as_it_is() -> None:
    world, master = running()
    epoch, latest = master.term.epoch, master.copy.latest
    update(world)
    assert (master.term.epoch, master.term.manifest.version) == (epoch + 1, 2)
    assert (master.copy.latest, master.term.closer.behind) == (latest, False)
    assert master.term.terms.closed == master.term.committer.closed
    assert world.master().control.leadership.epoch(master.job) == epoch + 1
    assert world.master().control.leadership.replicas == {}
