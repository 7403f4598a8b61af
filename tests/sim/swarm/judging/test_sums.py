"""Counts of a record against the lines of its members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from elfmesh.control.jobs.records import ASSUMPTION_BROKEN, BUCKETS
from tests.sim.swarm.judging.invariants import ALL
from tests.sim.test_swarm_invariants import JOB, KEY, clean, swap


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
