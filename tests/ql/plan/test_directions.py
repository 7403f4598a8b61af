from __future__ import annotations

import random

import pyarrow as pa
import pytest

from elfmesh.ql import Query, parse
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.expressions.assumption import AssumedBound, AssumedDependency
from elfmesh.ql.expressions.nodes import Call, FieldRef, Literal, Ref
from elfmesh.ql.plan.directions import Direction, course, early_having, is_not_negative, local_having

HEAD = "CREATE JOB a.b EVERY '5 s' AS SELECT k FROM log GROUP BY k HAVING "


def local(having: str, members: int) -> object:
    return local_having(parse(HEAD + having), members)


@pytest.mark.parametrize("members", [1, 2, 7, 100, 1000])
def test_what_agents_do_not_report_sums_to_less_than_a_quarter_of_the_threshold(members: int) -> None:
    rng = random.Random(members)
    now = members
    for _ in range(200):
        threshold = rng.choice((1, 3, 50, 1000, 123_456))
        now = max(1, min(1000, now + rng.randint(-3, 3)))  # members come and go
        condition = local(f"count(*) >= {threshold}", now)
        assert isinstance(condition, Call)
        (_, limit) = condition.args
        assert isinstance(limit, Literal)
        assert isinstance(limit.value, int)
        assert now * (limit.value - 1) * 4 < threshold  # the greatest counts that are not reported


@pytest.mark.parametrize("members", [1, 3, 8, 1000])
@pytest.mark.parametrize("threshold", [0.5, 2.0, 1000.0, 77])
def test_sums_that_are_not_reported_stay_below_a_quarter_too(members: int, threshold: float) -> None:
    condition = local(f"sum(abs(x)) >= {threshold}", members)
    assert isinstance(condition, Call)
    limit = condition.args[1]
    assert isinstance(limit, Literal)
    assert isinstance(limit.value, float)
    assert members * limit.value * 4 <= threshold * (1 + 1e-9)


def test_each_part_that_changes_is_reported_alone() -> None:
    condition = local("k LIKE 'a%' AND (count(*) >= 800 OR max(x) > 5)", 10)
    assert isinstance(condition, Call)
    assert condition.name == "and"
    either = next(each for each in condition.args if isinstance(each, Call) and each.name == "or")
    assert [each.name for each in either.args if isinstance(each, Call)] == [">=", ">"]


@pytest.mark.parametrize("having", ["max(x) > min(x)", "count(*) >= 0", "count(*) - 1 > 4"])
def test_a_group_is_reported_after_each_change_where_no_share_is_known(having: str) -> None:
    assert local(having, 8) is None


def test_not_is_moved_into_comparisons() -> None:
    assert local("NOT (count(*) < 800 OR max(x) <= 5)", 10) == local("count(*) >= 800 AND max(x) > 5", 10)


@pytest.mark.parametrize(
    ("value", "answer"),
    [("length(x)", True), ("abs(x)", True), ("x", False), ("-1", False), ("if(a, 2, x)", False), ("2", True)],
)
def test_sums_rise_only_over_values_that_are_provably_not_negative(value: str, answer: bool) -> None:
    statement = parse(f"{HEAD}sum({value}) > 1")
    assert is_not_negative(statement.plan.values[0]) is answer
    rises = course(Ref("a0"), statement).direction is Direction.RISING
    assert rises is answer


def test_a_condition_that_rises_never_becomes_false_again() -> None:
    """Random conditions over random records, evaluated after each of them."""
    rng = random.Random(14)
    atoms = ["count(*)", "count(DISTINCT x)", "max(x)", "-min(x)", "sum(abs(x))", "count_if(x > 0) * 2"]
    for number in range(60):
        chosen = [f"{rng.choice(atoms)} {rng.choice(('>', '>='))} {rng.randint(-5, 20)}" for _ in range(3)]
        text = f"{chosen[0]} {rng.choice(('AND', 'OR'))} {chosen[1]} {rng.choice(('AND', 'OR'))} {chosen[2]}"
        query = Query(parse(f"SELECT k FROM log GROUP BY k HAVING {text}"))
        having = query.statement.plan.having
        assert having is not None
        assert course(having, query.statement).direction is Direction.RISING
        values = [rng.choice((None, rng.randint(-9, 9))) for _ in range(25)]
        held = False
        for stop in range(1, len(values) + 1):
            rows = pa.record_batch({"k": ["a"] * stop, "x": pa.array(values[:stop], pa.int64())})
            there = query.finalise_parts(query.reduced("log", BlockRows.of(rows)), None).num_rows > 0
            assert there or not held, (number, text, values[:stop])
            held = there


@pytest.mark.parametrize(
    ("value", "known"),
    [("round(count(*), -1)", True), ("round(5.55, count(*))", False), ("floor(count(*))", True)],
)
def test_a_rounded_value_has_a_direction_if_the_places_are_constant(value: str, known: bool) -> None:
    statement = parse(f"{HEAD}{value} > 1")
    assert statement.plan.having is not None
    found = course(statement.plan.having, statement).direction
    assert found is (Direction.RISING if known else Direction.UNKNOWN)


def test_an_approximate_count_decides_on_registers_alone() -> None:
    statement = parse(f"{HEAD}approx_count_distinct(x) > 3")
    condition = early_having(statement)
    assert isinstance(condition, Call)
    assert condition.args[0] == Call("hll registers", (Ref("a0"),))


@pytest.mark.parametrize("members", [1, 3, 8])
def test_a_sum_under_an_assumed_bound_has_a_local_threshold(members: int) -> None:
    text = HEAD.replace("EVERY '5 s'", "EVERY '5 s' ASSUME (x >= 0, y <= 0)")
    condition = local_having(parse(f"{text}sum(x) >= 960"), members)
    assert isinstance(condition, Call)
    assert condition.args[1] == Literal("double", 960 / (4 * members))
    assert local_having(parse(f"{text}sum(y) <= -960"), members) is None


def test_an_assumed_bound_is_about_the_column_of_the_record() -> None:
    assumes = (AssumedBound("x", 0), AssumedBound("y", 0, upper=True), AssumedDependency(("z",), "x"))
    assert is_not_negative(FieldRef("x"), assumes)
    assert not is_not_negative(FieldRef("x"))
    assert not any(is_not_negative(FieldRef(name), assumes) for name in ("y", "z", "lookup.x"))
