"""ELF (USENIX ATC 2014), section 3 and Figure 9: consistency and stragglers."""

from __future__ import annotations

from dataclasses import replace

from tests.control.clicks import BASE, SLIDE, fill
from tests.control.harness import World
from tests.srt.rig import Rig, part


def test_figure_9_agent_1_loses_snapshot_0_and_blocks_agents_5_and_7() -> None:
    """ELF 3: "agent 1 loses snapshot 0, and thus blocks agent 5 and agent 7"."""
    five, six, seven = Rig(), Rig(), Rig()
    five.children(1, 2, frontier=0)
    six.children(3, 4, frontier=0)
    seven.children(5, 6, frontier=0)
    for rig in (five, six, seven):
        assert rig.reported() == [("announce", 0)]

    def up(rig: Rig, number: int) -> None:
        for sent, claims in rig.above.parts:
            seven.child(replace(sent, source=number.to_bytes(1)), claims=claims)
        rig.above.parts.clear()

    five.child(part(1, 2, 1, source=1, _1="b"))  # agent 1's snapshot 1 comes, its snapshot 0 is lost
    for snapshot in (0, 1):
        text = "ab"[snapshot]
        five.child(part(snapshot, snapshot + 1, 2, source=2, **{f"_{snapshot}": text}))
        six.child(part(snapshot, snapshot + 1, 3, source=3, **{f"_{snapshot}": text}))
        six.child(part(snapshot, snapshot + 1, 4, source=4, **{f"_{snapshot}": text}))
    up(five, 5)
    up(six, 6)
    assert five.reported() == [], "agent 5 is blocked"
    assert six.reported() == [("claim", 0, 1, {3, 4}, {0: "aa"}), ("claim", 1, 2, {3, 4}, {1: "bb"})]
    assert seven.reported() == [], "agent 7 is blocked"

    five.child(part(0, 1, 1, source=1, _0="a"))  # it is sent again
    assert five.reported() == [("claim", 0, 2, {1, 2}, {0: "aa", 1: "bb"})]
    up(five, 5)
    assert seven.reported() == [("claim", 0, 2, {1, 2, 3, 4}, {0: "aaaa", 1: "bbbb"})]


def test_a_leap_closes_an_interval_without_the_straggler_and_names_it() -> None:
    """3: "the "leaping straggler" approach, which skips the delayed snapshot and simply jumps to the next
    interval to continue the stream computation", "maintaining timeliness at reduced levels of result
    accuracy".
    """
    world = World(4)
    fill(world, intervals=4)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    master = world.master()
    straggler = next(agent for agent in world.living if agent is not master)
    world.kill(straggler)
    world.seal_all(BASE + 4 * SLIDE)
    world.run(4.0)
    (first, _), *later = world.results(master)
    assert (first.state, first.completeness) == ("FINAL", 1.0)
    assert [(record.state, record.completeness) for record, _ in later] == [("FINAL_PARTIAL", 0.75)] * 3
    assert all(record.missing == [f"agent-{straggler.number}"] for record, _ in later)


def test_all_agents_are_equal_and_the_master_is_a_role() -> None:
    """3: "ELF assigns one or more of the following roles to each participating agent": another agent takes
    the role when the master dies, and goes on where it was.
    """
    world = World(4)
    fill(world, intervals=3)
    world.apply(world[0])
    world.seal_all(BASE + SLIDE)
    world.run(1.0)
    first = world.master()
    world.kill(first)
    world.seal_all(BASE + 3 * SLIDE)
    world.run(8.0)
    second = world.master()
    assert second is not first
    assert [record.index for record, _ in world.results(second)] == [1000, 1001, 1002]
