"""The barrier against scripts: what goes in, and literally what goes up."""

from __future__ import annotations

from dataclasses import replace

from elfmesh.contribution import Contribution
from elfmesh.srt.messages import FIRST, Refused
from elfmesh.srt.parts import ENTRIES_MAX, Part
from tests.srt.rig import Rig, part


def test_a_range_goes_up_in_the_step_that_completes_it() -> None:
    rig = Rig()
    rig.children(1, 2)
    rig.own(part(FIRST, FIRST, 0))
    rig.own(part(FIRST, 3, 0, _1="x"))
    rig.child(part(FIRST, 2, 1, source=1, _1="y"))
    assert rig.reported() == [("announce", "ever")]
    rig.child(part(FIRST, 5, 2, source=2, _4="z"))
    assert rig.reported() == [("claim", "ever", 2, {0, 1, 2}, {1: "xy"})]
    rig.child(part(2, 4, 1, source=1))
    assert rig.reported() == [("claim", 2, 3, {0, 1, 2}, {})]


def test_one_part_of_an_interval_needs_no_merge() -> None:
    rig = Rig()
    rig.hold = True
    rig.children(1, 2)
    rig.child(part(FIRST, 1, 1, source=1, _0="x"))
    rig.child(part(FIRST, 1, 2, source=2))
    assert not rig.asked
    assert rig.reported()[1:] == [("claim", "ever", 1, {1, 2}, {0: "x"})]


def test_counts_are_added_also_where_there_are_no_rows() -> None:
    rig = Rig()
    rig.children(1, 2)
    for child in (1, 2):
        empty = Part(FIRST, 1, 1 << child, (Contribution(0, (0, 3, child), b""),), 0, bytes([child]))
        rig.child(empty)
    assert rig.above.parts[-1][0].items == (Contribution(0, (0, 6, 3), b""),)


def test_ranges_are_cut_where_the_coverage_changes() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 6, 1, source=1))
    rig.child(part(0, 2, 2, source=2), claims=True)
    rig.reported()
    rig.barrier.child_joined(b"\2", 0, 9)  # child 2 skips 2..9
    assert rig.reported() == [("claim", 2, 6, {1}, {})]


def test_a_child_that_does_not_contribute_is_not_waited_for() -> None:
    rig = Rig()
    rig.children(1, frontier=0)
    rig.children(2, frontier=None)
    rig.child(part(0, 1, 1, source=1))
    assert rig.reported() == [("announce", 0), ("claim", 0, 1, {1}, {})]
    rig.children(2, frontier=1)
    rig.child(part(1, 2, 1, source=1))
    assert rig.reported() == [], "now it is waited for"


def test_a_late_arrival_goes_up_at_once_as_a_supplement() -> None:
    rig = Rig()
    rig.children(1, frontier=0)
    rig.child(part(0, 4, 1, source=1, _0="x"))
    rig.reported()
    rig.child(part(2, 6, 2, source=2, _2="l", _5="m"), claims=False)
    assert rig.reported() == [("supplement", 2, 4, {2}, {2: "l"})]
    rig.child(part(4, 6, 1, source=1))
    assert rig.reported() == [("claim", 4, 6, {1, 2}, {5: "m"})]


def test_a_dead_child_stops_blocking_and_what_it_left_goes_up_as_it_came() -> None:
    rig = Rig()
    rig.children(1, 2, 3, frontier=0)
    rig.child(part(0, 2, 1, source=1, _0="x"))
    rig.child(part(0, 2, 2, source=2, _0="y"))
    rig.reported()
    rig.barrier.child_left(b"\1")
    assert rig.reported() == [("alone", 0, 2, {1}, {0: "x"})]
    rig.barrier.child_left(b"\3")
    assert rig.reported() == [("claim", 0, 2, {2}, {0: "y"})]


def test_the_last_contributor_to_leave_lets_everything_go() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.own(part(0, 3, 0, _0="x"))
    rig.reported()
    for child in (b"\1", b"\2"):
        rig.barrier.child_left(child)
    assert rig.reported() == [("claim", 0, 3, {0}, {0: "x"})]
    rig.barrier.retire()
    assert rig.reported() == [("announce", None)]
    rig.children(4, frontier=7)
    assert rig.reported() == [("announce", 3), ("claim", 3, 7, set(), {})]


def test_duplicates_are_dropped_also_inside_larger_coverage() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 1, 1, 3, 4, source=1, _0="x"))
    rig.child(part(0, 1, 1, 3, 4, source=1, _0="x"))
    rig.child(part(0, 1, 3, source=2, _0="y"))
    assert rig.reported() == [("announce", 0), ("claim", 0, 1, {1, 3, 4}, {0: "x"})]
    assert rig.count["duplicates"] == 2


def test_a_partial_overlap_is_reported_and_not_merged() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 2, 1, 3, source=1, _0="x"))
    rig.child(part(0, 1, 3, 4, source=2, _0="y"))
    assert rig.reported() == [
        ("announce", 0),
        ("overlap", 0, 1, 0),
        ("claim", 0, 1, {1, 3}, {0: "x"}),
    ]


def test_collecting_again_sends_the_own_contribution_alone_and_drops_the_rest() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.own(part(0, 3, 0, _0="o", _2="p"))
    rig.child(part(0, 3, 1, source=1, _0="x"))
    rig.child(part(0, 1, 2, source=2, _0="y"))
    rig.reported()
    rig.barrier.recollect(0, 0, 2, 1, ordered=True)
    assert rig.reported() == [("alone", 0, 2, {0}, {0: "o"}, 1)]
    stale = rig.barrier.receive(part(0, 3, 5, source=1, _0="z"), 0, claims=False)
    assert stale == (Refused(0, 2, 1),)
    rig.child(replace(part(0, 2, 1, source=1, _0="x"), attempt=1), claims=False)
    assert rig.reported() == [("alone", 0, 2, {1}, {0: "x"}, 1)]
    rig.child(part(1, 3, 2, source=2))
    assert rig.reported() == [("claim", 1, 2, set(), {}), ("claim", 2, 3, {0, 1, 2, 5}, {2: "p"})]
    rig.barrier.opened(rig.barrier.standing)  # a new parent: nothing of the dropped attempt comes again
    assert rig.reported() == [
        ("alone", 0, 2, {0}, {0: "o"}, 1),
        ("alone", 0, 2, {1}, {0: "x"}, 1),
        ("alone", 2, 3, {0, 1, 2, 5}, {2: "p"}),
    ]


def test_contributions_after_a_repeated_collection_belong_to_its_attempt() -> None:
    rig = Rig()
    rig.barrier.recollect(0, 0, 2, 3, ordered=True)
    rig.own(part(0, 4, 0, _1="x"))
    assert rig.reported() == [
        ("announce", 0),
        ("alone", 0, 2, {0}, {1: "x"}, 3),
        ("claim", 0, 2, set(), {}),
        ("claim", 2, 4, {0}, {}),
    ]


def test_an_attempt_learnt_from_a_child_is_reported_because_others_may_not_know_it() -> None:
    rig = Rig()
    rig.own(part(0, 2, 0, _0="o"))
    rig.reported()
    rig.child(replace(part(0, 1, 1, source=1, _0="x"), attempt=1), claims=False)
    assert rig.reported() == [
        ("alone", 0, 1, {0}, {0: "o"}, 1),
        ("lagging", 0, 1, 1),
        ("alone", 0, 1, {1}, {0: "x"}, 1),
    ]


def test_a_higher_epoch_empties_the_barrier_and_a_lower_one_is_refused() -> None:
    rig = Rig()
    rig.children(1, 2)
    rig.child(part(FIRST, 1, 1, source=1, _0="x"))
    rig.reported()
    rig.barrier.receive(part(FIRST, 1, 2, source=2, _0="y"), 5, claims=True)
    assert rig.reported() == [("supplement", "ever", 1, {2}, {0: "y"})]
    rig.child(part(FIRST, 1, 1, source=1, _0="x"))
    assert rig.reported() == []
    assert rig.count["stale_epoch"] == 1


def test_released_intervals_are_dropped_and_do_not_block() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 5, 1, source=1, _0="x", _4="y"))
    rig.reported()
    rig.barrier.release(3)
    assert rig.reported() == [("claim", 0, 3, set(), {})]
    rig.child(part(0, 4, 2, source=2, _1="late", _3="z"))
    assert rig.reported() == [("claim", 3, 4, {1, 2}, {3: "z"})]
    assert rig.count["stale_released"] == 1
    rig.barrier.opened(None)
    assert ("alone", 3, 4, {1, 2}, {3: "z"}) in rig.reported()


def test_a_new_parent_gets_everything_unreleased_again() -> None:
    rig = Rig()
    rig.own(part(0, 1, 0, _0="a"))
    rig.own(part(1, 2, 0, _1="b"))
    rig.barrier.release(1)
    rig.barrier.closed()
    rig.own(part(2, 3, 0, _2="c"))
    rig.reported()
    rig.barrier.opened(rig.barrier.standing)
    assert rig.reported() == [("alone", 1, 2, {0}, {1: "b"}), ("claim", 2, 3, {0}, {2: "c"})]


def test_hasten_sends_what_is_there_and_the_rest_follows() -> None:
    rig = Rig()
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 3, 1, source=1, _0="x"))
    rig.reported()
    rig.barrier.hasten(0, 2)
    assert rig.reported() == [("claim", 0, 2, {1}, {0: "x"})]
    rig.child(part(0, 3, 2, source=2, _0="y"))
    assert rig.reported() == [("supplement", 0, 2, {2}, {0: "y"}), ("claim", 2, 3, {1, 2}, {})]


def test_a_merge_that_fails_keeps_the_widest_part_and_names_the_others() -> None:
    rig = Rig()
    rig.hold = True
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 3, 1, 3, source=1, _1="x"))
    rig.child(part(0, 3, 2, source=2, _1="y"))
    (token, parts) = rig.asked.popleft()
    assert parts == (b"x", b"y")
    rig.reported()
    rig.barrier.merged(token, None, "TypeConflict: column k0")
    assert rig.reported() == [
        ("fault", 1, 2, {2}, "TypeConflict: column k0"),
        ("claim", 0, 1, {1, 2, 3}, {}),
        ("claim", 1, 2, {1, 3}, {1: "x"}),
        ("claim", 2, 3, {1, 2, 3}, {}),
    ]
    rig.barrier.merged(token, b"again", "")
    assert rig.reported() == [], "a second answer changes nothing"


def test_a_merge_too_large_for_one_message_goes_up_side_by_side() -> None:
    rig = Rig(payload_bytes_max=5)
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 1, 1, source=1, _0="xxx"))
    rig.child(part(0, 1, 2, source=2, _0="yyy"))
    assert rig.reported()[1:] == [
        ("claim", 0, 1, {1}, {0: "xxx"}),
        ("supplement", 0, 1, {2}, {0: "yyy"}),
    ]
    assert rig.count["merge_oversize"] == 1


def test_an_own_entry_too_large_for_any_message_is_left_out_by_name() -> None:
    rig = Rig(payload_bytes_max=5)
    rig.own(part(0, 3, 0, _0="ok", _1="too large", _2="ok"))
    assert rig.reported() == [
        ("announce", 0),
        ("fault", 1, 2, {0}, "its partial has 9 bytes, more than 5; more PARTITIONS make it smaller"),
        ("claim", 0, 1, {0}, {0: "ok"}),
        ("claim", 1, 2, set(), {}),
        ("claim", 2, 3, {0}, {2: "ok"}),
    ]


def test_what_was_being_merged_is_withheld_if_it_is_collected_again_meanwhile() -> None:
    rig = Rig()
    rig.hold = True
    rig.children(1, 2, frontier=0)
    rig.child(part(0, 3, 1, source=1, _1="x"))
    rig.child(part(0, 3, 2, source=2, _1="y"))
    rig.barrier.recollect(0, 1, 2, 1, ordered=True)
    rig.reported()
    rig.settle()
    assert rig.reported() == [
        ("claim", 0, 1, {1, 2}, {}),
        ("claim", 1, 2, set(), {}),
        ("claim", 2, 3, {1, 2}, {}),
    ]


def test_a_long_catch_up_goes_up_in_pieces() -> None:
    rig = Rig()
    rig.children(1, frontier=FIRST)
    many = tuple(Contribution(n, (1,), b"x") for n in range(ENTRIES_MAX + 1))
    rig.child(Part(FIRST, 10**6, 2, many, 0, b"\1"))
    pieces = [(sent.start, sent.stop, len(sent.items)) for sent, _ in rig.above.parts]
    assert pieces == [(FIRST, ENTRIES_MAX, ENTRIES_MAX), (ENTRIES_MAX, 10**6, 1)]


def test_held_bytes_are_bounded_and_what_is_dropped_is_counted() -> None:
    rig = Rig(held_bytes_max=8_000)
    rig.children(1, 2, frontier=0)
    for n in range(40):
        rig.child(part(n, n + 1, 1, source=1, **{f"_{n}": "x" * 400}))
        rig.child(part(n, n + 1, 2, source=2))
        assert rig.barrier.held_bytes <= 8_000
    assert rig.count["retained_dropped"] > 0
    for n in range(40, 80):
        rig.child(part(n, n + 1, 1, source=1, **{f"_{n}": "x" * 400}))
        assert rig.barrier.held_bytes <= 8_000
    assert rig.count["refused_full"] > 0
    assert rig.barrier.receive(part(80, 81, 1, source=1, _80="x" * 400), 0, claims=True) is None


def test_own_contributions_survive_what_had_to_be_dropped() -> None:
    rig = Rig(held_bytes_max=1_500)
    rig.own(part(0, 1, 0, _0="mine"))
    rig.children(1, frontier=1)
    rig.own(part(1, 2, 0))
    rig.child(part(1, 2, 1, source=1, _1="x" * 900))
    rig.reported()
    assert rig.count["retained_dropped"] > 0
    rig.barrier.opened(rig.barrier.standing)
    assert ("alone", 0, 1, {0}, {0: "mine"}) in rig.reported()


def test_a_child_that_reports_a_higher_frontier_is_believed() -> None:
    rig = Rig()
    rig.children(1, frontier=0)
    rig.reported()
    rig.barrier.child_stands(b"\1", 4)
    assert rig.reported() == [("claim", 0, 4, set(), {})]


def revision(interval: int, agent: int, rev: int, text: str) -> Part:
    item = Contribution(interval, (1,), text.encode(), rev)
    return Part(interval, interval + 1, 1 << agent, (item,), 0, bytes([agent]))


def test_a_revision_goes_up_alone_and_takes_the_place_of_what_waits() -> None:
    rig = Rig()
    rig.children(1, 2)
    rig.child(part(FIRST, 1, 1, source=1, _0="x"))
    for _ in range(2):
        rig.child(revision(0, 1, 2, "xx"), claims=False)
    rig.child(part(FIRST, 1, 2, source=2, _0="y"))
    texts = [(each.coverage, [item.payload for item in each.items]) for each, _ in rig.above.parts]
    assert texts.count((2, [b"xx"])) == 1, "once"
    assert not any(b"x" in payload and payload != b"xx" for _, payloads in texts for payload in payloads)
    rig.barrier.recollect(0, 0, 1, 1, ordered=True)
    rig.child(replace(revision(0, 1, 2, "xx"), attempt=1), claims=False)
    assert rig.above.parts[-1][0].attempt == 1, "in every attempt again"


def test_a_higher_epoch_forgets_what_an_earlier_one_had_released() -> None:
    rig = Rig()
    rig.barrier.meet(1)
    rig.barrier.release(5)
    rig.barrier.meet(2)
    assert rig.barrier.released == FIRST, "it may be another job of the same name"
