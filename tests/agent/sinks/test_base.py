"""What every sink decides alike: which records are news, and how far it has come behind them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from elfmesh.agent.sinks.base import (
    LogName,
    LostIntervals,
    Position,
    RecordFenced,
    RecordRefused,
    SinkItem,
    Unavailable,
    admit,
    behind,
    past,
)
from elfmesh.ql.values.plain_ipc import table_to_ipc
from tests.agent.sinks.rig import LOG, item


@pytest.mark.parametrize(
    ("position", "shown", "changes", "news"),
    [
        (None, None, {}, True),
        (Position(5), None, {}, True),
        (Position(6), None, {}, False),  # the sink has it
        (Position(5, 1), None, {"epoch": 2}, True),
        (None, (1, 2), {"state": "TENTATIVE", "rev": 3}, True),
        (None, (1, 2), {"state": "TENTATIVE", "rev": 2}, False),
        (None, (1, 2), {"state": "TENTATIVE", "epoch": 2, "rev": 0}, True),
        (None, (9, 9), {}, True),  # terminal: it takes the place of whatever was shown
    ],
)
def test_a_record_is_news(
    position: Position | None, shown: tuple[int, int] | None, changes: dict[str, Any], news: bool
) -> None:
    assert admit(position, shown, item(5, **changes)) is news


@pytest.mark.parametrize(
    ("position", "shown", "changes", "after"),
    [
        (Position(5, 3), None, {"epoch": 2}, 3),
        (None, (3, 0), {"epoch": 2, "state": "TENTATIVE", "rev": 9}, 3),
    ],
)
def test_a_master_that_was_replaced_is_fenced(
    position: Position | None, shown: tuple[int, int] | None, changes: dict[str, Any], after: int
) -> None:
    with pytest.raises(RecordFenced, match=f"interval 5 is of epoch 2, after {after}"):
        admit(position, shown, item(5, **changes))


@pytest.mark.parametrize(
    ("position", "given", "expected"),
    [
        (None, item(5, epoch=2), Position(6, 2)),
        (Position(3, 1), item(5, state="TENTATIVE"), Position(3, 1)),
        (None, item(5, state="TENTATIVE"), None),
    ],
)
def test_terminal_records_move_the_position(
    position: Position | None, given: SinkItem, expected: Position | None
) -> None:
    assert behind(position, given) == expected


@pytest.mark.parametrize(
    ("position", "expected"),
    [(None, Position(9)), (Position(3, 2), Position(9, 2)), (Position(20, 2), Position(20, 2))],
)
def test_what_is_lost_is_passed_and_the_position_never_falls(
    position: Position | None, expected: Position
) -> None:
    assert past(position, LostIntervals(3, 8, "gone")) == expected


@pytest.mark.parametrize(
    ("job", "incarnation"),
    [
        ("shop", "1"),
        ("shop/top/x", "1"),
        ("../top", "1"),
        ("shop/t p", "1"),
        ("shop/top", ""),
        ("a/" + "x" * 141, "1"),
    ],
)
def test_names_that_are_no_names_of_directories_are_refused(job: str, incarnation: str) -> None:
    with pytest.raises(Unavailable, match="is not a valid name"):
        LogName(job, incarnation)


@pytest.mark.parametrize(("parts", "numbers"), [(1, [(None, None)]), (2, [(1, 2), (2, 2)])])
def test_a_record_in_pages_is_an_object_for_each_page(parts: int, numbers: list[Any]) -> None:
    table = pa.concat_tables([pa.table({"x": [1, 2]}), pa.table({"x": [3]})])
    given = SinkItem(item(5).record, table_to_ipc(table), parts)
    shown = list(given.shown(LOG))
    assert [(each.get("part"), each.get("parts")) for each in shown] == [
        each or (None, None) for each in numbers
    ]
    assert [row["x"] for each in shown for row in each["rows"]] == [1, 2, 3]
    assert {each["incarnation"] for each in shown} == {"1a2b"}


def test_columns_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(RecordRefused, match="two columns are called 'x'"):
        item(5, pa.table({"x": [1], "X": [2]})).table()
