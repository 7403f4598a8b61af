"""Result lines that are parts of one record: a reader gets the whole record or none of it."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.api.line_parts import Joiner, Parts, ends, place_of, whole


def line(index: int, part: int = 0, parts: int = 0, rev: int = 1, rows: str = "x") -> dict[str, Any]:
    found: dict[str, Any] = {"interval": {"index": index}, "rev": rev, "rows": list(rows)}
    return found | ({"part": part, "parts": parts} if parts else {})


def rows_of(*lines: dict[str, Any]) -> list[tuple[int, str]]:
    return [(found["interval"]["index"], "".join(found["rows"])) for found in whole(lines)]


def test_a_line_without_parts_is_a_record() -> None:
    assert rows_of(line(1, rows="a"), line(2, rows="b")) == [(1, "a"), (2, "b")]


def test_parts_are_put_together_in_their_order() -> None:
    assert rows_of(line(1, 1, 3, rows="a"), line(1, 2, 3, rows="b"), line(1, 3, 3, rows="c")) == [(1, "abc")]
    (found,) = whole([line(1, 1, 1)])
    assert "part" not in found
    assert "parts" not in found


@pytest.mark.parametrize(
    "lines",
    [
        [line(1, 2, 2)],
        [line(1, 1, 2)],
        [line(1, 1, 3), line(1, 3, 3)],
        [line(1, 1, 2), line(2, 2, 2)],
        [line(1, 1, 2, rev=1), line(1, 2, 2, rev=2)],
        [],
    ],
    ids=["no beginning", "no end", "no middle", "another interval", "another revision", "nothing"],
)
def test_a_record_of_which_a_part_is_missing_is_left_out(lines: list[dict[str, Any]]) -> None:
    assert rows_of(*lines) == []


def test_a_record_that_comes_again_from_its_beginning_is_whole() -> None:
    again = [line(1, 1, 2, rows="a"), line(1, 1, 2, rows="a"), line(1, 2, 2, rows="b")]
    assert rows_of(*again) == [(1, "ab")]


def test_a_record_after_a_broken_one_is_whole() -> None:
    assert rows_of(line(1, 1, 3), line(1, 3, 3), line(2, rows="z")) == [(2, "z")]


def test_after_a_break_only_lines_that_were_not_had_are_new() -> None:
    had = Parts()
    sent = [line(1, 1, 3), line(1, 2, 3), line(1, 1, 3), line(1, 2, 3), line(1, 3, 3), line(2), line(2)]
    assert [had.is_new(each) for each in sent] == [True, True, False, True, True, True, True]


def test_a_line_holds_its_place_and_whether_it_is_the_last() -> None:
    assert place_of({"interval": {"index": "7"}}) == (7, 1, 1, False)
    assert ends({})
    assert not ends({"part": 1, "parts": 2})
    assert Joiner().add(line(3)) == {"interval": {"index": 3}, "rev": 1, "rows": ["x"]}
