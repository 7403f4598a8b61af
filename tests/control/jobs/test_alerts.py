"""The state of alerts is a function of the newest closed records."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.control.jobs.alerts import (
    FIRING,
    OK,
    PENDING,
    AlertState,
    AlertVerdict,
    JobAlert,
    alerts_of,
    unevaluated_since,
)
from elfmesh.control.jobs.records import ResultRecord

SECOND = 1_000_000
A, B = (("host", "a"),), (("host", "b"),)


def alert(clause: str = "FOR 3 INTERVALS RESOLVE AFTER 2 INTERVALS", condition: str = "n > 10") -> JobAlert:
    text = (
        f"CREATE JOB web.errors EVERY '1 s' ALERT hot WHEN {condition} {clause} AS"
        " SELECT host, count(*) AS n, avg(ms) AS m FROM access GROUP BY host"
    )
    (found,) = alerts_of(text)
    return found


def record(index: int, **changes: Any) -> ResultRecord:
    return ResultRecord(
        job="web/errors", index=index, start_us=index * SECOND, end_us=(index + 1) * SECOND, **changes
    )


def rows(**counts: int | None) -> pa.Table:
    return pa.table(
        {"host": list(counts), "n": pa.array(list(counts.values()), pa.int64()), "m": [1.0] * len(counts)}
    )


def verdicts(pattern: str, hot: JobAlert) -> list[AlertVerdict]:
    """T: the condition is true for host a; F: it is false; P: a partial record; S: a skipped one."""
    found = []
    for index, each in enumerate(pattern):
        state = {"P": "FINAL_PARTIAL", "S": "SKIPPED"}.get(each, "FINAL")
        found.append(hot.verdict(record(index, state=state), rows(a=99 if each == "T" else 1)))
    return found


@pytest.mark.parametrize(
    ("pattern", "state"),
    [
        ("", OK),
        ("F", OK),
        ("T", PENDING),
        ("TT", PENDING),
        ("TTF", OK),
        ("TTT", FIRING),
        ("TTFT", PENDING),
        ("TTTF", FIRING),
        ("TTTFT", FIRING),
        ("TTTFF", OK),
        ("TTTFTF", FIRING),
        ("TTPT", FIRING),
        ("TTTSSS", FIRING),
        ("TTTFSPF", OK),
        ("TTT" + "FT" * 11, PENDING),  # neither true for long nor false for long in the newest 24 records
    ],
)
def test_an_alert_fires_for_and_resolves_after_intervals(pattern: str, state: str) -> None:
    hot = alert()
    found = hot.states(verdicts(pattern, hot))
    assert found.get(A, AlertState()).state == state


@given(st.text("TFPS", max_size=80))
def test_the_state_needs_no_older_records(pattern: str) -> None:
    hot = alert()
    everything = verdicts(pattern, hot)
    assert hot.states(everything) == hot.states(everything[-hot.lookback :])


def test_labels_are_alerts_of_their_own() -> None:
    hot = alert("FOR 2 INTERVALS")
    found = [hot.verdict(record(0), rows(a=11, b=10)), hot.verdict(record(1), rows(a=12, b=11))]
    assert hot.states(found) == {
        A: AlertState(FIRING, since_us=0, changed_us=2 * SECOND, trues=2),
        B: AlertState(PENDING, since_us=SECOND, trues=1),
    }
    found += [hot.verdict(record(index), rows(b=11)) for index in (2, 3)]
    assert {labels: each.state for labels, each in hot.states(found).items()} == {B: FIRING}


def test_a_run_of_empty_intervals_counts_as_so_many() -> None:
    hot = alert()
    fires = verdicts("TTT", hot)
    assert hot.states([*fires, hot.verdict(record(5, since=3), rows())]) == {}
    again = hot.states([*fires, hot.verdict(record(5, since=3), rows(a=99))])[A]
    assert (again.state, again.trues, again.since_us) == (PENDING, 1, 5 * SECOND)


def test_a_partial_record_counts_if_it_can_only_rise() -> None:
    partial = record(0, state="FINAL_PARTIAL")
    for condition, true in (
        ("n > 10", {A}),
        ("n >= 99 AND n > 1", {A}),
        ("n < 100", set()),
        ("m > 0", set()),
    ):
        verdict = alert(condition=condition).verdict(partial, rows(a=99))
        assert set(verdict.true) == true, condition
        assert not verdict.known
    evaluated = alert("FOR 1 INTERVALS ON PARTIAL EVALUATE", "m > 0").verdict(partial, rows(a=99))
    assert set(evaluated.true) == {A}
    assert evaluated.known


def test_records_that_change_nothing_are_reported() -> None:
    hot = alert()
    assert unevaluated_since(verdicts("TFPS", hot)) == 2 * SECOND
    assert unevaluated_since(verdicts("TPSF", hot)) is None
    assert unevaluated_since([]) is None


def test_rows_of_other_types_change_nothing() -> None:
    found = alert().verdict(record(0), pa.table({"host": ["a"], "other": [1]}))
    assert (found.true, found.known) == (frozenset(), False)


def test_nulls_and_no_rows_are_false() -> None:
    hot = alert()
    for table in (rows(a=None), rows(), pa.table({})):
        assert hot.verdict(record(0), table) == AlertVerdict(0, 0, SECOND, frozenset(), True)


def test_all_short_patterns_agree_with_a_machine_that_remembers() -> None:
    hot = alert()
    for pattern in map("".join, itertools.product("TF", repeat=8)):
        state, trues, falses = OK, 0, 0
        for each in pattern:
            trues, falses = (trues + 1, 0) if each == "T" else (0, falses + 1)
            if trues >= 3:
                state = FIRING
            elif falses >= 2:
                state = OK
        found = hot.states(verdicts(pattern, hot)).get(A, AlertState()).state
        assert (found == FIRING) is (state == FIRING), pattern
