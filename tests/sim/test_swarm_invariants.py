"""Each invariant can fail: a small run that holds all of them, broken in one place at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pyarrow as pa
import pytest
from msgspec.structs import replace as changed

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, BUCKETS, FIRST, Partly, ResultRecord
from elfmesh.control.protocol.events import Reply
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.sim.swarm.drawing.job import Job
from tests.sim.swarm.fidelity.test_watch import contributes_less, watched
from tests.sim.swarm.host import Host
from tests.sim.swarm.judging import registers
from tests.sim.swarm.judging.aftermath import _part_of_the_job
from tests.sim.swarm.judging.history import (
    Appended,
    Contribution,
    Decided,
    History,
    Incarnation,
    Safe,
)
from tests.sim.swarm.judging.invariants import ALL
from tests.sim.swarm.judging.oracle import HostTruth, Truth
from tests.sim.swarm.judging.outcome import Outcome
from tests.sim.swarm.judging.sites import LeftOut
from tests.sim.swarm.recovering import YIELD_S, Recovery
from tests.sim.swarm.scenario import NEW_DISK, draw, sealed
from tests.sim.swarm.workload import Written

KEY: Incarnation = ("sim/ids", "1")
JOB = Job("ids", True, 1, 1, 0, 1.0, "wait", 1, None)
UNDONE = Reply(1, 200, {"version": 2})
"""What a client hears of the undo of a job that no client has applied."""

ZEROS = (0,) * (len(BUCKETS) - 1)


def line(host: int, index: int, end: int) -> Written:
    return Written(host * 100 + end, host, end, index * 1_000_000, "a", 1, 1.0, "good", False)


def host(number: int) -> HostTruth:
    """Two intervals, a record in each, two frames."""
    lines = [line(number, 5, 1), line(number, 6, 2)]
    sealed = [
        Contribution(1.0, FIRST, 6, {5: (1, *ZEROS)}, {number: 1}, 1),
        Contribution(2.0, 6, 7, {6: (1, *ZEROS)}, {number: 2}, 1),
    ]
    return HostTruth(f"h{number}", lines, sealed, FIRST, {number: 0.5})


def record(index: int, epoch: int = 1) -> tuple[ResultRecord, bytes]:
    counts = dict.fromkeys(BUCKETS, 0) | {"contributed": 2}
    rows = pa.table({"id": [100 + index - 4, 200 + index - 4], "n": [1, 1]})
    made = ResultRecord(
        job=KEY[0], index=index, agents_in=2, agents_expected=2, counts=counts, epoch=epoch, version=1
    )
    return made, table_to_ipc(rows)


def clean() -> Outcome:
    history = History(lambda: 0.0)
    history.names[b"j"] = KEY[0]
    published = {index: record(index) for index in (5, 6)}
    history.appended[KEY] = [Appended(3.0, "h1", *published[index]) for index in (5, 6)]
    history.followed["reader", KEY] = {index: [published[index]] for index in (5, 6)}
    history.rosters = {(KEY, 1, index): ("h1", "h2") for index in (5, 6)}
    history.decided[KEY] = [Decided(FIRST, 7, 1, ("h1", "h2"))]
    history.leaders[b"j", 1] = {"h1": 1.0}
    history.epochs["h1", b"j"] = [(1.0, 1)]
    return Outcome(
        scenario=draw(0),
        history=history,
        truths={KEY: Truth(JOB, KEY, {"h1": host(1), "h2": host(2)})},
        final={KEY: published},
        due={KEY: 6},
        closed_in_s={KEY: 2.0},
        founders={KEY: ("h1", "h2")},
        pending_corrections={KEY: {}},
        counted={KEY: 7},
        there=("h1", "h2"),
        fidelity=watched(KEY, *(made for made, _ in published.values())),
    )


def swap(out: Outcome, index: int, **fields: object) -> None:
    """Publish something else of an interval."""
    at = index - 5
    each = out.history.appended[KEY][at]
    out.history.appended[KEY][at] = replace(each, record=changed(each.record, **fields))


def swap_final(out: Outcome, index: int, **fields: object) -> None:
    made, rows = out.final[KEY][index]
    out.final[KEY][index] = (changed(made, **fields), rows)


def frame(out: Outcome, at: int, **fields: object) -> None:
    sealed = out.truths[KEY].hosts["h1"].sealed
    sealed[at] = replace(sealed[at], **fields)  # type: ignore[arg-type]  # the fields of a contribution


def left_out(out: Outcome) -> None:
    out.history.sites.left_out.append(LeftOut(20.0, 10.0, "h1", "h2", "sums 5 without h1"))


def twice(out: Outcome) -> None:
    made, rows = record(6)
    out.history.followed["reader", KEY][6].append((changed(made, missing=["h2"]), rows))


def a_row_more(out: Outcome) -> None:
    each = out.history.appended[KEY][0]
    rows = table_to_ipc(pa.table({"id": [101, 201], "n": [2, 1]}))
    out.history.appended[KEY][0] = replace(each, rows=rows)


def a_late_line(out: Outcome) -> None:
    out.truths[KEY].hosts["h1"].lines.append(line(1, 6, 3))


def late_in_an_open_interval(out: Outcome) -> None:
    """A third line, of the first interval, is read with the second frame."""
    out.truths[KEY].hosts["h1"].lines.append(line(1, 5, 3))
    frame(out, 1, positions={1: 3})


def revision(out: Outcome) -> None:
    each = out.history.appended[KEY][1]
    out.history.appended[KEY].append(replace(each, record=changed(each.record, agents_in=1)))


def lost_though_safe(out: Outcome) -> None:
    out.scenario = replace(out.scenario, faults=(NEW_DISK,))
    out.history.safe[KEY] = [Safe(1.0, "h1", 5, 7, (b"peer",))]
    swap(out, 5, missing=["h1"])


def nothing_read(out: Outcome) -> None:
    for each in out.truths[KEY].hosts.values():
        each.sealed.clear()


def one_left_out(out: Outcome) -> None:
    del out.final[KEY][5]


def out_of_order(out: Outcome) -> None:
    out.history.appended[KEY].reverse()


def two_generations(out: Outcome) -> None:
    """The old master leads on behind the time that it has to hear of the new one."""
    recovery = Recovery(KEY[0], 1.0, "1", "2", whole_at=2.0, rivals=[1.0])
    out.history.clients.recoveries.append(recovery)
    assert not [*ALL["D-4 generations"](out)]
    recovery.rivals.append(0.1 + YIELD_S)


def never_final(out: Outcome) -> None:
    made, _ = record(5)
    rows = table_to_ipc(pa.table({"id": [999], "n": [1]}))
    out.history.early[KEY] = [(changed(made, state="EARLY", clean=False, counted=["h1"]), rows)]


def of_an_open_session(out: Outcome) -> None:
    """A record has the rows of a session whose last record is in its own interval."""
    job = replace(JOB, spans="SESSION", ids=False, slide_s=1, size_s=1)
    out.truths[KEY] = replace(out.truths[KEY], job=job)
    for index in (5, 6):
        swap_final(out, index, start_us=index * 1_000_000, end_us=(index + 1) * 1_000_000)
    at = pa.array([6_000_000]).cast(pa.timestamp("us", "UTC"))
    columns = {"k": ["a"], "window_start": at, "window_end": at, "n": [1], "s": [101]}
    out.final[KEY][6] = (out.final[KEY][6][0], table_to_ipc(pa.table(columns)))
    out.final[KEY][5] = (out.final[KEY][5][0], b"")


def of_no_seal(out: Outcome) -> None:
    """Rows of partitions, none of which has a punctuation."""
    out.truths[KEY] = replace(out.truths[KEY], job=sealed(JOB, "1"))
    for index in (5, 6):
        swap_final(out, index, start_us=index * 1_000_000, end_us=(index + 1) * 1_000_000)


def posts_out_of_order(out: Outcome) -> None:
    """The rows of a SEQUENCED topic, in another order."""
    out.truths[KEY] = replace(out.truths[KEY], job=replace(JOB, delivery="SEQUENCED"))
    for index in (5, 6):
        names = [("h2", "p2", index - 4), ("h1", "p1", index - 4)]
        rows = [dict(zip(("agent", "producer", "position"), each, strict=True)) for each in names]
        out.final[KEY][index] = (out.final[KEY][index][0], table_to_ipc(pa.Table.from_pylist(rows)))


def two_orders(out: Outcome) -> None:
    first, second = ("h1", "p1", 1), ("h2", "p2", 1)
    out.orders, out.posted = {"h1": [first, second], "h2": [first, second]}, frozenset({first, second})
    assert not [*ALL["ordered topic"](out)]
    out.orders["h2"] = [second, first]


BROKEN: dict[str, Callable[[Outcome], None]] = {
    "I1 conservation": lambda out: frame(out, 1, counts={6: (2, *ZEROS)}),
    "I1 published counts": lambda out: swap(out, 5, counts=dict.fromkeys(BUCKETS, 0)),
    "I1 sums": lambda out: swap_final(out, 5, counts=dict.fromkeys(BUCKETS, 1)),
    "I1 violations": lambda out: swap(out, 5, counts=dict.fromkeys(BUCKETS, 0) | {ASSUMPTION_BROKEN: 1}),
    "I1 nobody late": a_late_line,
    "I1 rows and counts": lambda out: swap(out, 5, counts=dict.fromkeys(BUCKETS, 0) | {"contributed": 3}),
    "I2 one record": twice,
    "I3 consecutive": out_of_order,
    "I3 no silent gap": one_left_out,
    "I4 offsets": lambda out: frame(out, 1, counts={6: (0, 1, *ZEROS[1:])}),
    "I5 oracle": a_row_more,
    "I5 partitions": of_no_seal,
    "I5 spanning": of_an_open_session,
    "D-19 early": never_final,
    "D-21 prefixes": lambda out: swap(out, 5, partly=(Partly(0, "h1", 5_000_000, 1, 0),)),
    "I6 completeness": lambda out: swap(out, 5, agents_in=1),
    "I6 fidelity": lambda out: swap(out, 5, fidelity=0.5),
    "I6 rates": lambda out: contributes_less(out, KEY),
    "I7 epochs": lambda out: swap_final(out, 6, epoch=0),
    "I7 remembered": lambda out: out.history.epochs["h1", b"j"].append((2.0, 0)),
    "I8 one master": lambda out: out.history.leaders[b"j", 1].update({"h2": 2.0}),
    "I9 revisions": revision,
    "I9 late": late_in_an_open_interval,
    "D-4 clients": lambda out: out.history.clients.note(0.0, "undo", {"job": KEY[0]}, UNDONE),
    "D-4 generations": two_generations,
    "I10 version": lambda out: frame(out, 1, version=2),
    "I11 k-safety": lost_though_safe,
    "I11 pages": lambda out: out.history.pages.thin.append("1 of 3 voters"),
    "I12 liveness": lambda out: out.closed_in_s.update({KEY: 40.0}),
    "I13 limits": lambda out: out.limits.append("too many files"),
    "I17 racks": lambda out: out.crowded.append("three voters in one rack"),
    "I18 idle paths": lambda out: out.starving.append("one tree of r1 is used"),
    "D-23 residency": lambda out: out.history.residence.elsewhere.append("Part went to r2"),
    "I19 site parts": left_out,
    "I20 shown": lambda out: out.history.sites.shown.update({KEY: [record(5)]}),
    "I14 replay": lambda out: out.replayed.append("5 became 6"),
    "topics": posts_out_of_order,
    "ordered topic": two_orders,
    "I16 older": lambda out: swap_final(out, 6, version=0),
    "no bugs": nothing_read,
}


def test_a_clean_run_holds_all() -> None:
    out = clean()
    assert {name: [*rule(out)] for name, rule in ALL.items()} == {name: [] for name in ALL}


def test_the_sums_are_wrong_where_a_line_is_in_no_bucket_in_two_or_in_none_yet() -> None:
    rule = ALL["I1 sums"]
    lost, doubled, pending_corrections = clean(), clean(), clean()
    lost.truths[KEY].hosts["h1"].lines.append(line(1, 6, 3))
    (notified,) = rule(lost)
    assert notified.startswith("sim/ids: 4 in all buckets, 5 to 5 were written")
    assert notified.endswith("{'h1': 1, 'h2': 0}")
    made, _ = record(6)
    swap_final(doubled, 6, counts=made.counts | {"expired": 1})
    assert len([*rule(doubled)]) == 1
    pending_corrections.pending_corrections[KEY]["h1"] = (0, 0, 0, 0, 1, *ZEROS[4:])
    assert len([*rule(pending_corrections)]) == 1


def test_a_record_of_a_host_that_is_gone_may_be_in_a_bucket_or_not_but_in_no_two() -> None:
    out = clean()
    out.there = ("h2",)
    made, _ = record(6)
    for expired, fails in ((0, False), (1, False), (2, True)):
        out.truths[KEY].hosts["h1"].lines[2:] = [line(1, 6, 3)]
        out.final[KEY][6] = (changed(made, counts=made.counts | {"expired": expired}), out.final[KEY][6][1])
        assert bool([*ALL["I1 sums"](out)]) is fails, expired


def test_what_a_damaged_frame_had_is_no_silent_gap_once_its_host_declares_a_gap() -> None:
    out = clean()
    one_left_out(out)
    out.history.tampered |= dict.fromkeys(("h1", "h2"), "a bit of its frame log")
    assert len([*ALL["I3 no silent gap"](out)]) == 2
    made, _ = record(6)
    swap_final(out, 6, counts=made.counts | {"source_gap": 1})
    assert not [*ALL["I3 no silent gap"](out)]


def test_what_is_late_may_be_dropped_once_its_interval_was_closed() -> None:
    out = clean()
    late_in_an_open_interval(out)
    out.truths[KEY].hosts["h1"].released.append((1.5, 6))
    assert not [*ALL["I9 late"](out)]


def test_a_majority_without_votes_decides_nothing_until_the_register_has_taken_them_in_again() -> None:
    history, (a, b, c) = History(lambda: 0.0), (b"a", b"b", b"c")
    history.voters["j"] = [(0.0, ((a, b, c),))]
    history.forgot[b] = 10.0
    assert not registers.forgotten(history, "j", 20.0), "two others have their votes"
    history.voters["j"] += [(12.0, ((a, b, c), (a, c))), (13.0, ((a, c),))]
    history.forgot[c] = 14.0
    assert not registers.forgotten(history, "j", 14.0)
    assert registers.forgotten(history, "j", 20.0) == "1 of 2 voters have lost their votes"
    history.forgot[c] = 25.0
    history.voters["j"] += [(21.0, ((a, c), (a, b, c))), (22.0, ((a, b, c),))]
    assert not registers.forgotten(history, "j", 30.0), "one is a voter again"
    history.forgot[b] = 26.0
    assert registers.forgotten(history, "j", 30.0) == "2 of 3 voters have lost their votes"
    assert not registers.lost(history, "j", 30.0), "no disk is lost, so no epoch is led twice"


def test_a_log_that_was_rotated_unseen_is_part_of_a_job_that_had_looked_before_it_was_there() -> None:
    server = SimpleNamespace(
        rotated={1: 5.0}, ledger=[line(1, 5, 1), line(2, 6, 1)], inode=lambda: SimpleNamespace(number=2)
    )
    around = SimpleNamespace(scenario=SimpleNamespace(glob=""))
    log = cast("Host", SimpleNamespace(server=server, around=around))
    opened = {1: 9.0, 2: 9.0}
    assert [each.inode for each in _part_of_the_job(log, opened, 8.0)] == [2]
    assert [each.inode for each in _part_of_the_job(log, opened, 4.0)] == [1, 2]


def test_the_frame_that_begins_a_job_has_read_nothing() -> None:
    """Its file was opened before it was written; what was read since is in intervals that were never told."""
    out = clean()
    each = out.truths[KEY].hosts["h1"]
    each.start, begun = 8, Contribution(1.0, 8, 8, {}, {}, 1)
    each.sealed[:] = [begun]
    assert not [*ALL["I1 conservation"](out)]
    each.sealed.append(Contribution(2.0, 8, 9, {}, {1: 2}, 1))
    assert [*ALL["I1 conservation"](out)], "both lines were read, and expired in no interval"
    each.sealed[1] = replace(each.sealed[1], counts={8: (0, 0, 0, 0, 2, *ZEROS[4:])})
    assert not [*ALL["I1 conservation"](out)]


def test_a_lost_disk_takes_along_what_its_last_frame_carries_and_no_more() -> None:
    """Two expired records of an annulled interval wait for the next one that is sealed."""
    out = clean()
    each = out.truths[KEY].hosts["h1"]
    each.start = 8
    begun = Contribution(1.0, 8, 8, {}, {}, 1)
    annuls = Contribution(3.0, 8, 8, {}, {}, 2, annuls=8, read_up_to=((1, 2, 8),), carried=2)
    each.sealed[:] = [begun, annuls]
    assert [*ALL["I1 conservation"](out)], "the agent is there and seals again"
    out.there = ("h2",)
    assert not [*ALL["I1 conservation"](out)]
    each.sealed[1] = replace(annuls, carried=1)
    assert [*ALL["I1 conservation"](out)], "one of them would count nowhere"
    each.sealed[1:] = [annuls, Contribution(4.0, 8, 9, {}, {1: 2}, 2, carried=2)]
    assert [*ALL["I1 conservation"](out)], "the next interval is sealed without them"


@pytest.mark.parametrize("name", ALL)
def test_an_invariant_can_fail(name: str) -> None:
    out = clean()
    BROKEN[name](out)
    assert [*ALL[name](out)]


@pytest.mark.parametrize(
    ("names", "found"),
    [
        ([("h1", "p1", 1), ("h1", "p1", 1)], "more than once"),
        ([("h1", "p1", 2), ("h1", "p1", 1)], "1 of p1 is behind 2"),
        ([("h2", "p2", 1)], "lost: [('h1', 'p1', 1)]"),
    ],
)
def test_each_post_is_in_an_order_once_behind_those_of_its_producer(
    names: list[tuple[str, str, int]], found: str
) -> None:
    out = clean()
    out.orders, out.posted = {"h1": names}, frozenset({("h1", "p1", 1)})
    (wrong,) = ALL["ordered topic"](out)
    assert found in wrong
    out.lost["sim/order"] = "no majority"
    assert not [*ALL["ordered topic"](out)]


@pytest.mark.parametrize("delivery", ["SEQUENCED", "SEALED", "UNORDERED"])
def test_a_post_in_two_records_of_a_topic_is_noticed(delivery: str) -> None:
    out = clean()
    out.truths[KEY] = replace(out.truths[KEY], job=replace(JOB, delivery=delivery))
    rows = [{"agent": "h1", "producer": "p1", "position": 1}]
    for index in (5, 6):
        out.final[KEY][index] = (out.final[KEY][index][0], table_to_ipc(pa.Table.from_pylist(rows)))
    assert [*ALL["topics"](out)] == ["sim/ids: more than once: [('h1', 'p1', 1)]"]


def test_only_rows_of_an_agent_that_has_left_are_withdrawn_from_a_record_that_lacks_nothing() -> None:
    for agent, fails in (("h1", True), ("h3", False)):
        out = clean()
        never_final(out)
        (line,) = out.history.early[KEY]
        out.history.early[KEY] = [(changed(line[0], counted=["h1", agent]), line[1])]
        swap(out, 5, clean=False, early={"emitted": 1, "epoch": 1}, withdrawn=[{"id": 999}])
        assert bool([*ALL["D-19 early"](out)]) is fails, agent
