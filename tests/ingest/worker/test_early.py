from __future__ import annotations

import random
from collections.abc import Sequence

import pyarrow as pa
import pytest

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.ingest.worker.early import MESSAGE_BYTES_MAX, EarlyStates, EarlyWindows
from elfmesh.ingest.worker.insertion import batches_of
from elfmesh.ql.engine.block import BlockRows

TUMBLE = "TUMBLE(ts, INTERVAL '10' SECOND)"


def statement(select: str = "k, count(*) AS n", having: str = "", window: str = TUMBLE) -> ql.Statement:
    having = f" HAVING {having}" if having else ""
    return ql.parse(f"CREATE JOB a.b EARLY '1 s' AS SELECT {select} FROM log GROUP BY {window}, k{having}")


def insert(windows: EarlyWindows, job: ql.Statement, keys: Sequence[object], at_s: int = 1) -> None:
    times = pa.array([at_s * 1_000_000] * len(keys), pa.timestamp("us"))
    batch = pa.record_batch({"k": pa.array(keys), "u": pa.array(range(len(keys))), "ts": times})
    windows.insert(batches_of(ql.Query(job).prepare(BlockRows.of(batch))))


def groups(states: EarlyStates) -> dict[object, int]:
    main = decode_partial(states.payload)["main"]
    return dict(zip(main["k0"].to_pylist(), main["a0:rows"].to_pylist(), strict=True))


def test_states_are_cumulative_and_only_groups_that_changed_are_reported() -> None:
    job = statement()
    windows = EarlyWindows(job)
    insert(windows, job, ["a", "a", "b"])
    assert [groups(each) for each in windows.take(0, None, 2)] == [{"a": 2, "b": 1}]
    assert windows.take(0, None, 2) == []
    insert(windows, job, ["a"])
    assert [groups(each) for each in windows.take(0, None, 2)] == [{"a": 3}]


def test_a_group_is_reported_when_its_own_value_reaches_the_local_threshold() -> None:
    job = statement(having="count(*) >= 80")
    windows = EarlyWindows(job)
    insert(windows, job, ["a"] * 10 + ["b"] * 9)
    assert [groups(each) for each in windows.take(0, None, 2)] == [{"a": 10}]
    insert(windows, job, ["b"])
    assert [groups(each) for each in windows.take(0, None, 2)] == [{"b": 10}]


def test_more_members_lower_the_threshold_for_groups_that_have_not_changed() -> None:
    job = statement(having="count(*) >= 80")
    windows = EarlyWindows(job)
    insert(windows, job, ["a"] * 5)
    assert windows.take(0, None, 2) == []
    assert [groups(each) for each in windows.take(0, None, 4)] == [{"a": 5}]


def test_members_that_come_and_go_leave_less_than_a_quarter_unreported() -> None:
    """Random records at random members; what the master knows is never far below the truth."""
    rng, threshold = random.Random(7), 200
    job = statement(having=f"count(*) >= {threshold}")
    for members in (1, 3, 12):
        agents = [EarlyWindows(job) for _ in range(members)]
        truth, known = 0, [0] * members
        now = members
        for _ in range(40):
            at = rng.randrange(members)
            number = rng.randint(1, 12)
            insert(agents[at], job, ["a"] * number)
            truth += number
            now = max(members, now + rng.randint(-2, 2))
            for each, windows in enumerate(agents):
                for states in windows.take(0, None, now):
                    known[each] = groups(states)["a"]
            assert truth - sum(known) < threshold / 4


def test_each_window_of_a_hop_has_its_own_states() -> None:
    job = statement(window="HOP(ts, INTERVAL '5' SECOND, INTERVAL '10' SECOND)")
    windows = EarlyWindows(job)
    insert(windows, job, ["a"], at_s=12)
    insert(windows, job, ["a"], at_s=17)
    assert {each.interval: groups(each) for each in windows.take(0, None, 1)} == {
        1: {"a": 1},
        2: {"a": 2},
        3: {"a": 1},
    }


def test_closed_windows_and_those_of_another_version_are_left_out() -> None:
    job = statement()
    windows = EarlyWindows(job)
    for at_s in (1, 11, 21):
        insert(windows, job, ["a"], at_s=at_s)
    assert [each.interval for each in windows.take(1, 2, 1)] == [1]
    windows.drop_below(2)
    assert windows.take(2, None, 1) == []


def test_the_values_of_a_distinct_count_go_with_their_group() -> None:
    job = statement("k, count(DISTINCT u) AS n", having="count(DISTINCT u) >= 8")
    windows = EarlyWindows(job)
    insert(windows, job, ["a", "a", "b"])
    (states,) = windows.take(0, None, 1)
    values = decode_partial(states.payload)["d0"]
    assert sorted(zip(values["k0"].to_pylist(), values["x"].to_pylist(), strict=True)) == [("a", 0), ("a", 1)]


def test_groups_beyond_the_limit_are_counted_and_wait() -> None:
    job = statement()
    windows = EarlyWindows(job, groups_max=2)
    insert(windows, job, ["a", "b", "c", "d"])
    (states,) = windows.take(0, None, 1)
    assert (groups(states), states.skipped) == ({"a": 1, "b": 1}, 2)


def test_a_message_is_bounded_and_the_next_one_has_the_rest() -> None:
    rng = random.Random(3)
    job = statement()
    windows = EarlyWindows(job)
    keys = [rng.randbytes(40).hex() for _ in range(3000)]
    insert(windows, job, keys)
    found: set[object] = set()
    while taken := windows.take(0, None, 1):
        assert sum(len(each.payload) for each in taken) <= MESSAGE_BYTES_MAX
        found |= set(groups(taken[0]))
    assert found == set(keys)


@pytest.mark.parametrize("other", [[1.5], [True], [b"x"]])
def test_types_that_do_not_fit_end_the_early_rows_of_their_window_alone(other: list[object]) -> None:
    job = statement()
    windows = EarlyWindows(job)
    insert(windows, job, ["a"])
    windows.take(0, None, 1)
    insert(windows, job, other)
    insert(windows, job, ["a"], at_s=11)
    assert [each.interval for each in windows.take(0, None, 1)] in ([0, 1], [1])
