"""Joins WITHIN a time: the root's step and relation against Algorithm 2, over any split of the records."""

from __future__ import annotations

import random
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.cbt import decode_partial
from elfmesh.errors import DataError
from elfmesh.ql.engine import open_groups, within
from elfmesh.ql.engine.open_groups import (
    NEVER_US,
    NONE,
    ClosedPane,
    Open,
    lacking_after,
    read_open,
    write_open,
)
from elfmesh.ql.plan.statement import WITHIN
from tests.ql.counting import Streams, close_in_order, near_pairs, partials_of
from tests.ql.sessions import SECOND, Record, content, query_of

WIDTH = 5 * SECOND
RECORDS = st.lists(
    st.tuples(
        st.builds(
            lambda at, beside: at * WIDTH // 2 + beside, st.integers(0, 12), st.sampled_from([0, 0, 1])
        ),
        st.sampled_from([None, "a", "b"]),
        st.integers(0, 2),
    ),
    max_size=20,
)
STREAMS = st.fixed_dictionaries({"s": RECORDS, "t": RECORDS})


def text_of(kind: str, within_us: int, partitions: int = 1, right: str = "t") -> str:
    head = f"CREATE JOB a.b EVERY '5 s' PARTITIONS {partitions} AS SELECT l.k AS k, l.ts AS at, l.v AS v,"
    join = f"FROM s l {kind} JOIN {right} r ON l.k = r.k WITHIN '{within_us} us'"
    return f"{head} r.ts AS other, r.v AS w {join}"


def row_of(left: Record, right: Record | None) -> tuple[Any, ...]:
    other, w = (None, None) if right is None else (right[0], right[2])
    return left[1], left[0], left[2], other, w


def run(
    text: str, agents: list[Streams], within_us: int, *, seed: int = 0, partitions: int = 1
) -> dict[int, list[tuple[Any, ...]]]:
    found = {}
    more = within_us // WIDTH + 2
    rng = random.Random(seed)
    for index, table, share in close_in_order(text, agents, rng=rng, partitions=partitions, more=more):
        assert share == 1.0
        if table.num_rows:
            times = (table.column(name).cast("int64") for name in ("at", "other"))
            plain = [column.to_pylist() for column in (table.column("k"), *times)]
            rows = zip(
                plain[0], plain[1], table["v"].to_pylist(), plain[2], table["w"].to_pylist(), strict=True
            )
            found[index] = sorted(rows, key=repr)
    return found


def wanted(
    left: list[Record], right: list[Record], within_us: int, kind: str
) -> dict[int, list[tuple[Any, ...]]]:
    rows = defaultdict(list)
    for interval, one, two in near_pairs(left, right, within_us, WIDTH, kind):
        rows[interval].append(row_of(one, two))
    return {interval: sorted(given, key=repr) for interval, given in rows.items()}


@settings(max_examples=30)
@given(
    st.lists(STREAMS, min_size=1, max_size=3), st.sampled_from(["", "LEFT"]),
    st.sampled_from([1, 2, WIDTH // 2, WIDTH, WIDTH + 1, 2 * WIDTH, 3 * WIDTH]), st.integers(1, 3),
    st.integers(0, 2**32),
)  # fmt: skip
def test_any_tree_and_any_split_give_the_pairs_of_the_paper(
    agents: list[Streams], kind: str, within_us: int, partitions: int, seed: int
) -> None:
    left, right = ([record for each in agents for record in each[name]] for name in ("s", "t"))
    found = run(text_of(kind, within_us, partitions), agents, within_us, seed=seed, partitions=partitions)
    assert found == wanted(left, right, within_us, kind)


@settings(max_examples=10)
@given(RECORDS, st.sampled_from(["", "LEFT"]), st.sampled_from([1, WIDTH, 2 * WIDTH]))
def test_a_stream_may_be_joined_with_itself(records: list[Record], kind: str, within_us: int) -> None:
    found = run(text_of(kind, within_us, right="s"), [{"s": records}], within_us)
    assert found == wanted(records, records, within_us, kind)


def test_the_other_conditions_of_on_decide_which_rows_are_alone() -> None:
    text = text_of("LEFT", WIDTH).replace("l.k = r.k", "l.k = r.k AND l.v < r.v")
    found = run(text, [{"s": [(0, "a", 1), (1, "a", 5)], "t": [(3, "a", 2)]}], WIDTH)
    assert found == {0: [("a", 0, 1, 3, 2)], 1: [("a", 1, 5, None, None)]}


def test_without_an_equation_all_pairs_within_the_time_are_tried() -> None:
    text = text_of("", WIDTH).replace("l.k = r.k", "l.v < r.v")
    found = run(text, [{"s": [(0, "a", 1)], "t": [(4, "b", 2), (WIDTH, "b", 2), (2, "b", 0)]}], WIDTH)
    assert found == {0: [("a", 0, 1, 4, 2)]}


def _step(text: str, open_: Open, streams: Streams, index: int, share: float = 1.0) -> open_groups.GroupStep:
    sent = partials_of(text, streams)
    pane = {name: content(table) for name, table in decode_partial(sent[index][0]).items()} if sent else {}
    bounds = (index * WIDTH, (index + 1) * WIDTH)
    return within.step(query_of(text).statement, open_, ClosedPane(pane, share, *bounds))


def test_both_sides_keep_what_is_less_than_the_time_before_the_end() -> None:
    text, at = text_of("", 2), WIDTH - 2
    records: list[Record] = [(at - 1, "a", 0), (at, "a", 1), (at + 1, "a", 2)]
    kept = _step(text, NONE, {"s": records, "t": records}, 0).open
    assert {name: rows.count for name, rows in kept.tables().items()} == {"main@0": 1, "main@1": 1}
    assert kept.due_us == NEVER_US
    assert _step(text, kept, {}, 1).open.is_empty


def test_a_left_join_keeps_the_right_side_twice_as_long_and_names_the_next_row_alone() -> None:
    text = text_of("LEFT", 2)
    records: list[Record] = [(WIDTH - back, "a", back) for back in (4, 3, 2, 1)]
    kept = _step(text, NONE, {"s": records, "t": records}, 0).open
    assert {name: rows.count for name, rows in kept.tables().items()} == {"main@0": 1, "main@1": 3}
    assert kept.due_us == WIDTH + 1


@pytest.mark.parametrize(
    ("kind", "shares"),
    [("", [0.5, 0.5, 0.5, 0.75, 1.0, 1.0, 1.0]), ("LEFT", [0.5, 0.5, 0.5, 0.5, 0.5, 0.75, 1.0])],
)
def test_an_interval_that_lacks_records_counts_as_long_as_they_would_be_kept(
    kind: str, shares: list[float]
) -> None:
    streams: Streams = {"s": [(9 * WIDTH, "a", 1)], "t": []}
    found = close_in_order(text_of(kind, 2 * WIDTH), [streams], shares={3: 0.5, 4: 0.75})
    assert [share for _, _, share in found] == shares


def test_a_skipped_interval_is_remembered_without_any_record() -> None:
    text = text_of("", WIDTH)
    found = read_open(lacking_after(b"", text, WITHIN, WIDTH), text, WITHIN)
    assert found.lacking == ((WIDTH, 0.0),)
    step = _step(text, found, {}, 1)
    assert (step.completeness, step.open.lacking) == (0.0, ())


def test_the_state_of_another_join_is_not_used() -> None:
    text = text_of("", WIDTH)
    open_ = _step(text, NONE, {"s": [(1, "a", 1)], "t": []}, 0).open
    data = write_open(open_, text, WITHIN)
    assert not read_open(data, text.replace("EVERY '5 s'", "EVERY '5 s' LATENESS '1 s'"), WITHIN).is_empty
    for other in (
        text_of("LEFT", WIDTH), text_of("", WIDTH + 1), text.replace("l.v AS v", "l.z AS v"),
        text + " WHERE r.v > 0", text + " WHERE l.v > 0",
    ):  # fmt: skip
        assert read_open(data, other, WITHIN).is_empty, other
        assert ql.compare(text, other).state == ql.RESET, other


def test_too_many_records_that_wait_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(open_groups, "OPEN_BYTES_MAX", 1)
    with pytest.raises(DataError, match="records that wait for a match have"):
        list(close_in_order(text_of("", WIDTH), [{"s": [(1, "a", 1)], "t": []}]))
