"""Lists that are made: sequences of integers and times, repeated values, lists side by side."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elfmesh.errors import QueryError
from elfmesh.ql.functions.nested.list_making import ELEMENTS_MAX
from elfmesh.ql.values.growth import TooLarge, check_size
from tests.ql.functions.evaluating import values
from tests.ql.refusals import refusal

MAX, MIN = 2**63 - 1, -(2**63)
BIG = "cast(null AS bigint)"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("sequence(1, 5)", [1, 2, 3, 4, 5]),
        ("sequence(5, 1)", [5, 4, 3, 2, 1]),
        ("sequence(1, 6, 2)", [1, 3, 5]),
        ("sequence(5, 1, -3)", [5, 2]),
        ("sequence(1, 1)", [1]),
        ("sequence(1, 1, 0)", [1]),
        ("sequence(1, 1, -7)", [1]),
        ("sequence(NULL, 5)", None),
        (f"sequence(1, {BIG})", None),
        ("sequence(1, 5, NULL)", None),
        (f"sequence({MIN}, {MAX}, {MAX})", [MIN, -1, MAX - 1]),
        (f"sequence({MAX}, {MIN}, {MIN})", [MAX, -1]),
        ("sequence(DATE '2024-02-28', DATE '2024-03-01')", [date(2024, 2, 28 + at) for at in (0, 1)] + [
            date(2024, 3, 1)]),
        ("sequence(DATE '2024-01-02', DATE '2024-01-01')", [date(2024, 1, 2), date(2024, 1, 1)]),
        ("sequence(DATE '2024-01-01', DATE '2024-01-09', INTERVAL 4 DAYS)[2]", date(2024, 1, 9)),
        ("size(sequence(TIMESTAMP '2024-01-01 00:00:00', TIMESTAMP '2024-01-02 23:00:00'))", 2),
        ("size(sequence(DATE '2024-01-01', TIMESTAMP '2024-01-01 01:00:00', INTERVAL 10 MINUTES))", 7),
        ("CAST(sequence(TIMESTAMP '2024-01-01 01:00:00', DATE '2024-01-01', -INTERVAL 30 MINUTES) AS STRING)",
         "[2024-01-01 01:00:00, 2024-01-01 00:30:00, 2024-01-01 00:00:00]"),
        ("sequence(DATE '2024-01-31', DATE '2024-04-30', INTERVAL '1' MONTH)",
         [date(2024, 1, 31), date(2024, 2, 29), date(2024, 3, 31), date(2024, 4, 30)]),
        ("sequence(DATE '2024-01-31', DATE '2024-03-30', INTERVAL 1 month)",
         [date(2024, 1, 31), date(2024, 2, 29)]),
        ("sequence(DATE '2024-05-31', DATE '2023-11-30', -INTERVAL '3' MONTH)",
         [date(2024, 5, 31), date(2024, 2, 29), date(2023, 11, 30)]),
        ("sequence(DATE '2020-02-29', DATE '2023-01-01', INTERVAL '1-0' YEAR TO MONTH)",
         [date(2020, 2, 29), date(2021, 2, 28), date(2022, 2, 28)]),
        ("CAST(sequence(TIMESTAMP '2024-01-01 10:00:00', DATE '2024-03-01', INTERVAL 1 MONTH) AS STRING)",
         "[2024-01-01 10:00:00, 2024-02-01 10:00:00]"),
        ("sequence(DATE '2024-01-01', DATE '2024-01-01', INTERVAL '-1' YEAR)", [date(2024, 1, 1)]),
        ("sequence(NULL, DATE '2024-01-01', INTERVAL '1' MONTH)", None),
        ("array_repeat('a', 2)", ["a", "a"]),
        ("array_repeat(NULL, 2)", [None, None]),
        ("array_repeat('a', -1)", []),
        ("array_repeat('a', NULL)", None),
        ("array_repeat(array(1), '2')", [[1], [1]]),
        ("arrays_zip(array(1, 2), array('a'))", [{"0": 1, "1": "a"}, {"0": 2, "1": None}]),
        ("arrays_zip(array(1), NULL)", None),
        ("arrays_zip(array())", []),
        ("arrays_zip(array(1))[0]['0']", 1),
    ],
)  # fmt: skip
def test_a_constant_is_the_one_of_spark(expression: str, expected: Any) -> None:
    assert values(expression) == [expected]


def test_the_fields_of_zipped_lists_have_the_names_of_the_columns() -> None:
    columns = {"l": [[1, None], [], None], "m": [["x"], None, ["y"]]}
    assert values("arrays_zip(l, m)", **columns) == [
        [{"l": 1, "m": "x"}, {"l": None, "m": None}], None, None,
    ]  # fmt: skip
    assert values("arrays_zip(l, array(0))[0].l", **columns) == [1, None, None]


def test_a_sequence_by_months_that_leads_nowhere_is_null() -> None:
    days = [date(2024, 1, 15), date(2024, 3, 1), None, date(2024, 3, 2)]
    text = "sequence(d, DATE '2024-03-01', INTERVAL '1' MONTH)"
    assert values(text, d=days) == [[days[0], date(2024, 2, 15)], [days[1]], None, None]


WORDS = st.integers(-9, 9) | st.integers(MIN, MAX)
SMALL = st.integers(-60, 60)


def spark_sequence(start: int, stop: int, step: int) -> list[int] | None:
    """The values of Spark; None where it raises an error, or where there are too many."""
    if start == stop:
        return [start]
    if not step or (step > 0) != (start < stop) or abs(stop - start) // abs(step) >= ELEMENTS_MAX:
        return None
    return list(range(start, stop + (1 if step > 0 else -1), step))


@given(
    rows=st.lists(st.tuples(SMALL, SMALL, st.integers(-9, 9)) | st.tuples(WORDS, WORDS, WORDS), min_size=1)
)
def test_sequences_of_columns_are_those_of_a_plain_loop(rows: list[tuple[int, int, int]]) -> None:
    wanted = [spark_sequence(*row) for row in rows]
    if sum(map(len, filter(None, wanted))) > ELEMENTS_MAX:
        return
    a, b, c = (list(column) for column in zip(*rows, strict=True))
    assert values("sequence(a, b, c)", a=a, b=b, c=c) == wanted


@given(rows=st.lists(st.tuples(SMALL, SMALL, st.integers(-72, 72)), min_size=1, max_size=9))
def test_sequences_of_dates_step_whole_days(rows: list[tuple[int, int, int]]) -> None:
    epoch = date(1970, 1, 1)
    days = [None if hours % 24 else spark_sequence(start, stop, hours // 24) for start, stop, hours in rows]
    a, b = ([epoch + timedelta(row[at]) for row in rows] for at in range(2))
    found = values("sequence(a, b, INTERVAL 1 HOUR * c)", a=a, b=b, c=[row[2] for row in rows])
    assert found == [None if each is None else [epoch + timedelta(day) for day in each] for each in days]


@given(
    rows=st.lists(
        st.tuples(
            st.none() | st.lists(st.none() | SMALL, max_size=4), st.none() | st.lists(st.text(max_size=2))
        ),
        min_size=1,
    ),
    times=st.integers(-1, 4),
)
def test_zipped_and_repeated_lists_are_those_of_a_plain_loop(rows: list[tuple[Any, Any]], times: int) -> None:
    lists, texts = ([row[at] for row in rows] for at in range(2))
    # A first row fixes the types, which pyarrow takes from the values.
    columns: dict[str, Any] = {"l": [[1], *lists], "m": [["x"], *texts], "n": [times] * (len(rows) + 1)}

    def zipped(left: list[Any] | None, right: list[Any] | None) -> list[dict[str, Any]] | None:
        if left is None or right is None:
            return None
        at = range(max(len(left), len(right)))
        return [{"l": dict(enumerate(left)).get(i), "m": dict(enumerate(right)).get(i)} for i in at]

    assert values("arrays_zip(l, m)", **columns)[1:] == [zipped(*row) for row in rows]
    assert values("array_repeat(l, n)", **columns)[1:] == [[each] * max(times, 0) for each in lists]


def test_a_list_of_too_many_elements_is_null() -> None:
    ends = [ELEMENTS_MAX, ELEMENTS_MAX + 1, MAX]
    assert values("size(sequence(1, n))", n=ends) == [ELEMENTS_MAX, -1, -1]
    assert values("size(array_repeat(1, n))", n=ends) == [ELEMENTS_MAX, -1, -1]


@pytest.mark.parametrize(
    "expression",
    [
        "size(sequence(1, n))",
        "size(array_repeat(1, n))",
        "size(array_repeat(repeat('x', 100000), n - 1000000))",
    ],
)
def test_lists_that_are_too_large_together_are_refused_before_they_are_made(expression: str) -> None:
    """The block is evaluated in pieces then, as other blocks that grow."""
    check_size(8 * ELEMENTS_MAX)
    with pytest.raises(TooLarge):
        values(expression, n=[ELEMENTS_MAX] * 5)


def test_a_constant_list_is_not_made_for_too_many_rows() -> None:
    with pytest.raises(TooLarge):
        values("size(concat(sequence(1, 1000000), array(n)))", n=[1] * 200)


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("sequence(1, 5, 0)", "8: no sequence of at most 1048576 values leads from this start to this stop"),
        ("sequence(1, 5, -1)", "8: no sequence of at most 1048576 values leads"),
        ("sequence(1, 2000000)", "8: no sequence of at most 1048576 values leads"),
        ("sequence(n, 5, 0)", "23: the step of a sequence is 0 | Write 1 or -1."),
        ("sequence('1', '5')", "8: sequence takes two integers, dates or timestamps, not STRING and STRING"),
        ("sequence(1.5, 5)", "8: sequence takes two integers, dates or timestamps, not DOUBLE and BIGINT"),
        ("sequence(1, DATE '2024-01-01')", "8: sequence takes two integers, dates or timestamps, not BIGINT"),
        ("sequence(1, 5, 'a')", "23: the step of a sequence of BIGINT is STRING, not BIGINT | Write 2."),
        ("sequence(1, 5, INTERVAL 1 DAY)", "23: the step of a sequence of BIGINT is INTERVAL DAY TO SECOND"),
        ("sequence(DATE '2024-01-01', DATE '2024-01-02', 1)",
         "55: the step of a sequence of DATE is BIGINT, not INTERVAL DAY TO SECOND | Write INTERVAL '1'"),
        ("sequence(DATE '2024-01-01', DATE '2024-01-02', INTERVAL 1 HOUR)",
         "55: the step of a sequence of dates is whole days | Write INTERVAL '1' DAY."),
        ("array_repeat(1, 2000000)", "24: array_repeat makes at most 1048576 elements"),
        ("array_repeat(1, n > 0)", "24: argument 2 of array_repeat is BOOLEAN, not BIGINT"),
        ("arrays_zip(array(1), 2)", "29: arrays_zip takes a list, not BIGINT"),
        ("arrays_zip(l, l)", "8: two fields of arrays_zip have the name l | Write zip_with("),
    ],
)  # fmt: skip
def test_what_makes_no_list_is_refused_where_it_stands(item: str, expected: str) -> None:
    assert refusal(f"SELECT {item} FROM t", n=[1], l=[[1]]).startswith(expected)


def test_months_and_days_are_no_step() -> None:
    with pytest.raises(QueryError, match="INTERVAL '1 month 2 days' is not a duration of fixed length"):
        values("sequence(DATE '2024-01-01', DATE '2024-05-01', INTERVAL '1 month 2 days')")
