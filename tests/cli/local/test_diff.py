"""`elf diff`: which intervals are compared, and numbers that lose no digit."""

from __future__ import annotations

from decimal import Decimal

import pytest

from elfmesh.cli.local.diff import asked_range, parse
from elfmesh.control.protocol.replies import ResultOffsets
from elfmesh.errors import UsageError

KEPT = ResultOffsets(earliest=-3, latest=12, incarnation="a1")


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (None, (-3, 12)),
        ("57", (57, 57)),
        ("57..90", (57, 90)),
        ("-5..-2", (-5, -2)),
        ("-5..0", (-5, 0)),
        (" 7..7 ", (7, 7)),
    ],
)
def test_intervals_are_one_or_a_range(text: str | None, found: tuple[int, int]) -> None:
    assert asked_range(text, KEPT) == found


@pytest.mark.parametrize("text", ["", "9..8", "1...2", "1..", "..2", "1-2", "all", "1.5"])
def test_what_is_not_a_range_is_refused(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        asked_range(text, KEPT)
    assert refused.value.message == f"--interval: {text!r} is not a range"


def test_a_number_keeps_its_digits() -> None:
    assert parse(b'{"a": 0.10000000000000000001, "n": 12345678901234567890}') == {
        "a": Decimal("0.10000000000000000001"),
        "n": 12345678901234567890,
    }
