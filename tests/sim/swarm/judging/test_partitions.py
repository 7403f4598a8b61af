"""Partitions beside a missing member: which of their rows are in doubt, and which are judged. Violations."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from msgspec.structs import replace as changed

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, BUCKETS
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.judging.invariants import ALL
from tests.sim.swarm.judging.oracle import violations
from tests.sim.swarm.scenario import sealed
from tests.sim.test_swarm_invariants import JOB, KEY, clean, swap, swap_final


def partitions(
    key: str, rows: list[int], *, trees: int = 2, sealed_at: float = 2.0, **fields: object
) -> bool:
    """Whether a run holds in which h2 is missing in the first interval, with a record of `key`.

    The partition of "a" ends in the second interval; `rows` and `fields` are of the record of that interval.
    """
    out = clean()
    first, second = out.truths[KEY].hosts["h1"], out.truths[KEY].hosts["h2"]
    first.lines[1] = replace(first.lines[1], value=800)
    second.lines[0] = replace(second.lines[0], key=key)
    second.sealed[0] = replace(second.sealed[0], at=sealed_at)
    out.truths[KEY] = replace(out.truths[KEY], job=replace(sealed(JOB, "1"), partitions=trees))
    windows = {index: {"start_us": index * 1_000_000, "end_us": (index + 1) * 1_000_000} for index in (5, 6)}
    one = dict.fromkeys(BUCKETS, 0) | {"contributed": 1}
    swap_final(out, 5, state="FINAL_PARTIAL", missing=["h2"], completeness=0.5, counts=one, **windows[5])
    swap_final(out, 6, **{"state": "FINAL_PARTIAL", "completeness": 0.5, **windows[6], **fields})
    out.final[KEY] = {
        5: (out.final[KEY][5][0], b""),
        6: (out.final[KEY][6][0], table_to_ipc(pa.table({"id": rows, "n": [1] * len(rows)}))),
    }
    return not [*ALL["I5 partitions"](out)]


def test_a_missing_member_that_had_sealed_leaves_the_keys_of_its_records_in_doubt() -> None:
    """It may be inside for the keys of one tree, and not for those of another (D-6)."""
    assert partitions("a", [101, 202])
    assert partitions("a", [101, 201, 202])
    assert partitions("a", [101, 202], completeness=0.1)
    assert not partitions("a", [101, 201, 202], trees=1), "one tree has all of its records or none"
    assert not partitions("a", [101, 201, 202], sealed_at=4.0), "it had sealed nothing when this was closed"


def test_the_keys_that_are_not_in_doubt_are_judged_beside_those_that_are() -> None:
    counts = dict.fromkeys(BUCKETS, 0)
    assert partitions("b", [101, 202])
    assert not partitions("b", [101]), "the partition has ended, and lacks a record"
    assert not partitions("b", [101, 202], completeness=1.0)
    assert not partitions("b", [101, 202], counts=counts | {"contributed": 3})
    assert not partitions("b", [101, 202], counts=counts | {"contributed": 1})


def counts_hold(**counts: int) -> bool:
    """Whether the counts of a record are right to which two members contribute a record each."""
    out = clean()
    out.truths[KEY] = replace(out.truths[KEY], job=sealed(JOB, "1"))
    swap(out, 5, counts=dict.fromkeys(BUCKETS, 0) | counts)
    return not [*ALL["I1 published counts"](out)]


def test_records_of_ended_partitions_are_late_and_so_may_be_records_of_earlier_intervals() -> None:
    """The latter had been closed without their member. The sums check each record of both."""
    assert counts_hold(contributed=2)
    assert counts_hold(contributed=1, late_dropped=1)
    assert counts_hold(contributed=2, late_dropped=1)
    assert not counts_hold(contributed=1), "a record is in no bucket"
    assert not counts_hold(contributed=3), "no contribution holds the third record"
    assert not counts_hold(contributed=3, late_dropped=1)


def stated(rows: list[tuple[str, int, int]], totals: tuple[int, int], **fields: object) -> bool:
    """Whether a run holds in which both hosts have a record of p in the first interval, and seal it then."""
    out = clean()
    for host, total in zip(out.truths[KEY].hosts.values(), totals, strict=True):
        host.lines[:] = [replace(host.lines[0], part="p"), replace(host.lines[1], part="p", total=total)]
    job = replace(wide.stated(JOB, "2", 100), partitions=1)
    out.truths[KEY] = replace(out.truths[KEY], job=job)
    for index in (5, 6):
        swap_final(out, index, start_us=index * 1_000_000, end_us=(index + 1) * 1_000_000, **fields)
    columns = zip(*rows, strict=True) if rows else ([], [], [])
    table = pa.table(dict(zip(("part", "n", "s"), columns, strict=True)))
    out.final[KEY] = {
        5: (changed(out.final[KEY][5][0], completeness=1.0), b""),
        6: (out.final[KEY][6][0], table_to_ipc(table)),
    }
    return not [*ALL["I5 partitions"](out)]


def test_a_partition_with_stated_records_is_one_row_and_as_complete_as_its_producers_state() -> None:
    assert stated([("p", 2, 302)], (1, 1))
    assert not stated([("p", 1, 101)], (1, 1)), "a record is missing"
    assert not stated([("p", 2, 302)], (1, 3)), "two of four records"
    assert stated([("p", 2, 302)], (1, 3), completeness=0.5)


def test_violations_are_values_beyond_bounds_and_further_values_of_dependencies() -> None:
    line = clean().truths[KEY].hosts["h1"].lines[0]
    lines = [replace(line, id=number, key=key, value=value) for number, key, value in (
        (1, "a", -5), (2, "a", 3), (3, "b", 3), (4, "b", 9), (4, "b", 3),
    )]  # fmt: skip
    for assume, found in (("", (0, 0)), ("v >= 0", (1, 0)), ("v <= 3, v >= -4", (2, 0)), ("k -> v", (0, 2)),
                          ("id -> k", (0, 0)), ("id -> v, v >= 4", (4, 1))):  # fmt: skip
        assert violations(replace(JOB, assume=assume), lines) == found, assume


@pytest.mark.parametrize(
    ("missing", "broken", "holds"),
    [([], 2, True), ([], 1, False), (["h2"], 1, True), (["h2"], 0, False), (["h2"], 2, False)],
)
@pytest.mark.parametrize("state", ["FINAL_PARTIAL", "SKIPPED"])
def test_a_record_counts_the_violations_of_its_members_whether_it_has_rows_or_not(
    state: str, missing: list[str], broken: int, holds: bool
) -> None:
    """Both members have one record, below the bound, in each interval (D-1)."""
    out = clean()
    out.truths[KEY] = replace(out.truths[KEY], job=replace(JOB, assume="v >= 2"))
    counts = dict.fromkeys(BUCKETS, 0)
    swap(out, 6, counts=counts | {ASSUMPTION_BROKEN: 2})
    swap(out, 5, state=state, missing=missing, counts=counts | {ASSUMPTION_BROKEN: broken})
    assert (not [*ALL["I1 violations"](out)]) is holds
