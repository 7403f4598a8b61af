"""The record that a run of intervals leaves, and the order to make its rows."""

from __future__ import annotations

from elfmesh.control.closing.decisions import Decision
from elfmesh.control.closing.ports import Closing
from elfmesh.control.closing.record_maker import RecordMaker
from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, NOT_COUNTED, Partly
from elfmesh.control.protocol.events import Finalised
from elfmesh.control.upstream.side_input import SideInput
from elfmesh.srt.coverage import bitmap_of
from elfmesh.srt.events import PartsDropped
from tests.control.closing.rig import COUNTED, SLIDE_US, START, ClosingRig, delta
from tests.control.member.support import SESSIONS, TEXT

ALL = 0b111
IN_TWO_TREES = TEXT.replace("DEADLINE", "PARTITIONS 2 DEADLINE")
WIDER = TEXT.replace("'10", "'20")


def maker_of(rig: ClosingRig) -> RecordMaker:
    latest = SideInput(rig.context, [rig.manifest], rig.close_ready)
    return RecordMaker(rig.term, rig.collection, latest)


def test_a_record_counts_the_members_inside_and_names_the_missing_ones() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b001, b"x")
    rig.contribute(0b100, b"z")
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL")
    record, payloads = maker_of(rig).make(run, 4)
    assert (record.job, record.index, record.state, record.rev) == ("shop/top", START, "FINAL_PARTIAL", 4)
    assert (record.agents_in, record.agents_expected, record.missing) == (2, 3, ["m1"])
    assert (record.completeness, record.fidelity) == (2 / 3, 2 / 3)
    assert (record.version, record.epoch, record.since) == (1, 3, None)
    assert (record.start_us, record.end_us) == (START * SLIDE_US, (START + 1) * SLIDE_US)
    assert record.absent == bitmap_of(0b010)
    assert record.counts["contributed"] == 2
    assert payloads == ((b"x", b"z"),)


def test_a_prefix_of_a_missing_member_is_inside_and_is_no_coverage() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b101, b"x")
    for number in (0, 1):
        delta(rig, number, 5, 2)
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL")
    record, payloads = maker_of(rig).make(run, 1)
    assert record.partly == (Partly(1, "m1", START * SLIDE_US + SLIDE_US // 2, 5, 2),)
    assert (record.missing, record.agents_in, record.completeness) == (["m1"], 2, 2 / 3)
    assert record.absent == bitmap_of(0b010)
    assert (record.counts["contributed"], record.counts["filtered"]) == (6, 2)
    assert record.fidelity > 2 / 3
    order = maker_of(rig).order(record, payloads)
    assert (order.parts, order.prefixes) == (((b"x",),), (b"p",))


def test_a_skipped_record_has_no_prefixes() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b101, b"x")
    delta(rig, 1, 5)
    record, _ = maker_of(rig).make(Decision(START, START + 1, True, ALL, 0b010, "SKIPPED"), 1)
    assert record.partly == ()


def test_contributions_without_rows_count_and_are_no_payload() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b011, b"x")
    rig.contribute(0b100, b"")
    record, payloads = maker_of(rig).make(Decision(START, START + 1, True, ALL), 1)
    assert (record.counts["contributed"], payloads) == (2, ((b"x",),))


def test_a_run_names_its_first_interval_and_leaves_one_record_at_its_end() -> None:
    rig = ClosingRig(members=3)
    run = Decision(START, START + 5, True, ALL, ALL, "FINAL_PARTIAL", since=START)
    record, payloads = maker_of(rig).make(run, 1)
    assert (record.index, record.first) == (START + 4, START)
    assert (record.counts["contributed"], payloads) == (NOT_COUNTED[0], ((),))
    assert record.absent == bitmap_of(ALL)


def test_members_whose_contribution_fails_are_absent_and_the_record_has_the_reason() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(ALL, b"x")
    rig.collection.failed.add(START, START + 1, 0b010, "m1: it is torn")
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL")
    record, _ = maker_of(rig).make(run, 1)
    assert record.reason == "m1: it is torn"
    assert record.absent == bitmap_of(0b010)


def test_a_torn_member_that_a_merge_holds_is_named_as_missing_and_its_records_are_inside() -> None:
    rig = ClosingRig(IN_TWO_TREES, members=3)
    rig.contribute(ALL, b"xyz")
    rig.contribute(0b101, b"xz", tree=1)
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL", torn=0b010)
    record, payloads = maker_of(rig).make(run, 1)
    assert record.missing == ["m1"]
    assert record.absent == b"", "its records are counted as contributed, and not once more as expired"
    assert payloads == ((b"xyz",), (b"xz",))


def test_a_torn_member_that_stands_alone_is_taken_out() -> None:
    rig = ClosingRig(IN_TWO_TREES, members=3)
    rig.contribute(0b101, b"xz")
    rig.contribute(0b010, b"y")
    rig.contribute(0b101, b"xz", tree=1, counts=NOT_COUNTED)
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL", torn=0b010)
    record, payloads = maker_of(rig).make(run, 1)
    assert (record.absent, payloads) == (bitmap_of(0b010), ((b"xz",), (b"xz",)))
    assert record.counts["contributed"] == COUNTED[0]


def test_a_record_names_the_revisions_that_are_inside() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b110, b"yz")
    rig.contribute(0b001, b"x")
    rig.contribute(0b001, b"X", rev=3)
    record, payloads = maker_of(rig).make(Decision(START, START + 1, True, ALL), 1)
    assert (record.revs, payloads) == (((0, 3),), ((b"yz", b"X"),))


def test_members_that_have_left_are_absent_and_not_missing() -> None:
    rig = ClosingRig(members=3)
    rig.book.evict(1, START)
    rig.contribute(0b101, b"xz")
    record, _ = maker_of(rig).make(Decision(START, START + 1, True, 0b101), 1)
    assert (record.missing, record.absent) == ([], bitmap_of(0b010))


def test_what_fails_of_a_member_that_has_left_is_absent() -> None:
    rig = ClosingRig(members=3)
    rig.book.evict(1, START)
    rig.contribute(0b101, b"xz")
    lost = PartsDropped(rig.manifest.job_id, 3, START, START + 1, bitmap_of(0b010), "it is torn")
    rig.collection.dropped(0, lost)
    record, _ = maker_of(rig).make(Decision(START, START + 1, True, 0b101), 1)
    assert (record.missing, record.absent, record.reason) == ([], bitmap_of(0b010), "")


def test_a_skipped_interval_has_nothing_in_its_result() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b101, b"xz")
    run = Decision(START, START + 1, True, ALL, 0b010, "SKIPPED")
    record, _ = maker_of(rig).make(run, 1)
    assert (record.completeness, record.fidelity, record.agents_in) == (0.0, 0.0, 2)


def test_a_skipped_interval_counts_the_records_and_violations_that_it_drops() -> None:
    """Members that are inside count them nowhere else (D-1)."""
    rig = ClosingRig(members=3)
    rig.contribute(0b001, b"x", counts=(5, *NOT_COUNTED[1:], 2))
    rig.contribute(0b100, b"z", counts=(3, *NOT_COUNTED[1:], 1))
    record, _ = maker_of(rig).make(Decision(START, START + 1, True, ALL, 0b010, "SKIPPED"), 1)
    assert (record.counts["contributed"], record.counts[ASSUMPTION_BROKEN]) == (8, 3)
    assert record.absent == bitmap_of(0b010), "only the missing member counts its records as expired"


def test_each_record_is_of_the_version_of_its_interval() -> None:
    rig = ClosingRig(WIDER, older=[(START - 1, TEXT)], effective=START + 1)
    rig.contribute(0b11, b"x")
    rig.contribute(0b11, b"y", START + 1)
    maker = maker_of(rig)
    found = []
    for index, version, slide_us in ((START, 1, SLIDE_US), (START + 1, 2, 2 * SLIDE_US)):
        record, payloads = maker.make(Decision(index, index + 1, True, 0b11), 1)
        order = maker.order(record, payloads)
        found.append((record.version, record.start_us, order.manifest.version))
        assert found[-1] == (version, index * slide_us, version)


def test_the_order_has_what_the_rows_are_made_of() -> None:
    rig = ClosingRig(members=3)
    rig.contribute(0b101, b"xz")
    maker = maker_of(rig)
    run = Decision(START, START + 1, True, ALL, 0b010, "FINAL_PARTIAL")
    order = maker.order(*maker.make(run, 4))
    assert (order.job, order.epoch, order.manifest) == (rig.manifest.job_id, 3, rig.manifest)
    assert (order.interval, order.parts, order.rev) == (START, ((b"xz",),), 4)
    assert (order.completeness, order.open, order.inputs) == (2 / 3, None, ())


def test_the_order_of_a_job_with_sessions_has_those_that_are_open() -> None:
    rig = ClosingRig(SESSIONS)
    rig.contribute(0b11, b"x")
    maker = maker_of(rig)
    record, payloads = maker.make(Decision(START, START + 1, True, 0b11), 1)
    assert maker.order(record, payloads).open == b""
    rig.term.open_groups.made(
        Closing(record, None), Finalised(rig.manifest.job_id, 3, START, b"", open=b"one")
    )
    assert maker.order(record, payloads).open == b"one"
