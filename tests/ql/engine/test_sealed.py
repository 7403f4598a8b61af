"""Partitions of SEALED: the root's step against an oracle that walks the intervals."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from elfmesh import ql
from elfmesh.errors import DataError
from elfmesh.ql.engine import open_groups
from elfmesh.ql.engine.open_groups import due_us, lacking_after, read_open
from elfmesh.ql.plan.statement import SEALED
from tests.ql.sealing import WIDTH, Ended, Line, close_all, oracle
from tests.ql.sessions import JOB, ROOT, manifest

AFTER = 5 * WIDTH


def text_of(how: str = "ONE", rest: str = "", *, partitions: int = 1) -> str:
    return (
        f"CREATE JOB ads.ends EVERY '1 s' PARTITIONS {partitions} AS "
        "SELECT k, v, count(*) AS hits FROM clicks "
        f"GROUP BY SEALED(k WHEN ends PRODUCERS {how} {rest} AFTER '5 s'), v"
    )


LINES = st.lists(
    st.builds(
        Line,
        ts=st.integers(1_000 * WIDTH, 1_014 * WIDTH),
        k=st.sampled_from("abc"),
        v=st.integers(0, 1),
        ends=st.sampled_from([False, False, False, True]),
        by=st.sampled_from("pqr"),
        total=st.one_of(st.none(), st.integers(0, 4)),
        n=st.one_of(st.none(), st.integers(-1, 3)),
    ),
    max_size=25,
)
MEMBERS = st.lists(LINES, min_size=1, max_size=4).map(
    lambda logs: {f"member{at}": lines for at, lines in enumerate(logs)}
)
SHARES = st.dictionaries(st.integers(1_000, 1_014), st.sampled_from([0.25, 0.5]), max_size=3)


@settings(max_examples=200, deadline=None)
@given(
    MEMBERS,
    st.sampled_from(["ONE", "ALL", "n"]),
    st.booleans(),
    st.booleans(),
    SHARES,
    st.integers(1, 3),
    st.integers(0, 2**32),
)
def test_any_order_any_cut_and_any_tree_give_the_partitions_of_the_oracle(
    members: dict[str, list[Line]],
    how: str,
    by: bool,
    counted: bool,
    shares: dict[int, float],
    partitions: int,
    seed: int,
) -> None:
    by = by and how != "ALL"
    rest = ("BY by " if by else "") + ("RECORDS total" if counted else "")
    text = text_of(how, rest, partitions=partitions)
    shuffled = {name: random.Random(seed).sample(lines, len(lines)) for name, lines in members.items()}
    rng = random.Random(seed)
    found = dict(close_all(text, shuffled, rng=rng, partitions=partitions, shares=shares, until=9))
    assert found == oracle(members, how=how, after=AFTER, by=by, counted=counted, shares=shares, until=9)


def ends(lines: dict[str, list[Line]], text: str, until: int = 3) -> dict[int, Ended]:
    """The intervals in which something ends or is late."""
    found = close_all(text, lines, until=until)
    return {index: each for index, each in found if each.rows or each.late or each.completeness < 1}


def at(second: float, k: str = "a", **more: object) -> Line:
    return replace(Line(round(second * WIDTH), k), **more)  # type: ignore[arg-type]  # fields of a Line


def test_a_partition_ends_in_the_interval_of_its_last_seal_and_later_records_are_late() -> None:
    log = [at(0.1), at(0.9), at(1.5), at(2.0, ends=True), at(2.9), at(3.1), at(4.0, "b")]
    found = ends({"m": log}, text_of())
    assert found == {2: Ended([("a", 0, 4)]), 3: Ended(late=1)}


def test_a_producer_that_seals_again_or_through_another_member_counts_once() -> None:
    seal = at(1.0, ends=True, n=3, by="p")
    again = replace(seal, ts=2 * WIDTH)
    other = replace(seal, by="q")
    lines = {"m": [at(0.0), seal, again], "w": [again, other]}
    text = text_of("n", "BY by")
    assert ends(lines, text) == {}, "two of three producers"
    lines["w"].append(replace(seal, by="r", ts=4 * WIDTH))
    assert ends(lines, text) == {4: Ended([("a", 0, 1)])}


def test_a_member_is_the_producer_where_no_column_is_given() -> None:
    seal = at(1.0, ends=True, n=2)
    assert ends({"m": [at(0.0), seal, replace(seal, ts=2 * WIDTH)], "w": []}, text_of("n")) == {}
    assert list(ends({"m": [at(0.0), seal], "w": [seal]}, text_of("n"))) == [1]


def test_all_waits_for_the_members_that_the_interval_expects() -> None:
    seal = at(1.0, ends=True)
    lines = {"m": [at(0.0), seal], "w": [replace(seal, ts=3 * WIDTH)]}
    joined = dict.fromkeys((2, 3), ("m", "w", "late"))
    found = {
        index: each.rows
        for index, each in close_all(text_of("ALL"), lines, expected=joined, until=3)
        if each.rows
    }
    assert found == {4: [("a", 0, 1)]}, "a member that joined is expected, one that was evicted is not"


def test_another_number_of_records_lowers_the_completeness() -> None:
    log = [at(0.0), at(0.1), at(0.2), at(1.0, ends=True, total=4)]
    assert ends({"m": log}, text_of("ONE", "RECORDS total")) == {1: Ended([("a", 0, 3)], 0.75)}
    log[-1] = replace(log[-1], total=2)
    assert ends({"m": log}, text_of("ONE", "RECORDS total")) == {1: Ended([("a", 0, 3)], 2 / 3)}


def test_without_a_record_for_the_duration_a_partition_ends_incomplete() -> None:
    log = [at(0.0), at(1.5, ends=True, n=4)]
    assert ends({"m": log}, text_of("n"), until=9) == {6: Ended([("a", 0, 1)], 0.25)}
    assert ends({"m": [at(0.0)]}, text_of(), until=9) == {4: Ended([("a", 0, 1)], 0.0)}


def test_the_number_of_producers_may_be_unknown() -> None:
    log = [at(0.0), at(1.0, ends=True, n=None)]
    assert ends({"m": log}, text_of("n"), until=9) == {5: Ended([("a", 0, 1)], 0.0)}


def test_an_ended_partition_is_remembered_for_the_duration_and_then_begins_again() -> None:
    log = [at(0.0), at(0.5, ends=True), at(5.9), at(6.0), at(6.5, ends=True)]
    assert ends({"m": log}, text_of()) == {
        0: Ended([("a", 0, 1)]),
        5: Ended(late=1),
        6: Ended([("a", 0, 1)]),
    }


def test_the_completeness_is_the_least_of_all_intervals_from_the_first_to_the_last() -> None:
    log = [at(0.0), at(3.0, ends=True), at(4.0, "b"), at(4.5, "b", ends=True)]
    found = dict(close_all(text_of(), {"m": log}, shares={1: 0.5, 6: 0.25}))
    assert [found[index].completeness for index in (0, 3, 4)] == [1.0, 0.5, 1.0]


def opened(log: list[Line]) -> bytes:
    from elfmesh.control.protocol.events import Finalise
    from tests.ql.sealing import partials

    (parts,) = partials(text_of(), "m", log, 1, random.Random(0)).values()
    return ROOT.close_groups(Finalise(JOB, 1, manifest(text_of()), 0, (tuple(parts),), 1, b"")).open


def test_open_partitions_show_when_the_first_of_them_is_due() -> None:
    assert due_us(opened([at(0.5), at(0.7, "b")])) == 500_000 + AFTER
    assert due_us(opened([at(0.5), at(0.7, ends=True)])) == open_groups.NEVER_US
    assert due_us(b"") == open_groups.NEVER_US


def test_behind_a_skipped_interval_partitions_are_open_and_incomplete() -> None:
    data = lacking_after(opened([at(0.5), at(0.7, "b"), at(0.8, "c", ends=True)]), text_of(), SEALED, WIDTH)
    read = read_open(data, text_of(), SEALED)
    assert list(read.shares) == [0.0]
    assert read.ended["main"].count == 1
    assert due_us(data) == 500_000 + AFTER
    other = text_of().replace("ends PRODUCERS", "NOT ends PRODUCERS")
    assert read_open(data, other, SEALED).is_empty, "other punctuations"


def test_too_many_open_partitions_are_an_error_that_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    log = [at(0.5, f"key{number}") for number in range(50)]
    monkeypatch.setattr(open_groups, "OPEN_BYTES_MAX", 200)
    with pytest.raises(DataError, match="the open partitions have") as problem:
        opened(log)
    assert "AFTER" in problem.value.hint
    monkeypatch.setattr(open_groups, "OPEN_ROWS_MAX", 49)
    with pytest.raises(DataError, match="more than 49 rows of open partitions"):
        opened(log)


def test_punctuations_are_in_no_row_and_in_no_distinct_value() -> None:
    text = (
        "CREATE JOB a.b EVERY '1 s' AS SELECT k, count(*) AS n, count(DISTINCT v) AS kinds, "
        "count(DISTINCT v) FILTER (WHERE v > 0) AS positive, window_start AS s, window_end AS e FROM clicks "
        "GROUP BY SEALED(k WHEN ends PRODUCERS ONE AFTER '5 s')"
    )
    log = [at(0.0, v=0), at(0.25, v=1), at(0.5, v=7, ends=True), at(0.75, "b", ends=True)]
    ((_, done),) = [each for each in close_all(text, {"m": log}) if each[1].rows]
    ((key, count, kinds, positive, start, end),) = done.rows
    assert (key, count, kinds, positive) == ("a", 2, 2, 1)
    assert (start.microsecond, end.microsecond) == (0, 250_000)


def test_what_counts_is_the_statement_alone() -> None:
    assert ql.parse(text_of()).tables[-1].keys == ("k0", "x")


def until_sealed(members: dict[str, list[Line]]) -> dict[str, list[Line]]:
    """The records before the first seal of their partition, and that seal."""
    ends = dict[str, int]()
    for line in (each for lines in members.values() for each in lines if each.ends):
        ends[line.k] = min(ends.get(line.k, line.ts), line.ts)
    return {
        name: [line for line in lines if line.ts // WIDTH <= ends.get(line.k, line.ts) // WIDTH]
        for name, lines in members.items()
    }


@settings(max_examples=80, deadline=None)
@given(MEMBERS.map(until_sealed), st.integers(0, 2**32))
def test_values_of_several_open_partitions_break_a_dependency_once(
    members: dict[str, list[Line]], seed: int
) -> None:
    text = text_of().replace("EVERY '1 s'", "EVERY '1 s' ASSUME (v -> k)").replace("'5 s'", "'1 h'")
    open_, lines = set[tuple[str, int]](), [each for lines in members.values() for each in lines]

    def contradictions() -> int:
        return len(open_) - len({v for _, v in open_})

    for index, ended in close_all(text, members, rng=random.Random(seed)):
        before = contradictions()
        open_ |= {(each.k, each.v) for each in lines if each.ts // WIDTH == index and not each.ends}
        assert ended.broken == contradictions() - before
        open_ -= {(k, v) for k, v, _ in ended.rows}


def test_a_dependency_between_other_columns_is_left_to_the_agents() -> None:
    text = text_of().replace("EVERY '1 s'", "EVERY '1 s' ASSUME (v -> total, v -> k)")
    assert [str(each) for each in ql.Query(ql.parse(text)).assumptions.dependencies] == ["v -> total"]
