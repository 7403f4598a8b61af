"""A dependency is contradicted by two values of a column for one key, a bound by a value beyond it."""

from __future__ import annotations

from pathlib import Path

import pytest

from elfmesh.local.contradictions import contradiction, excess
from elfmesh.ql.expressions.assumption import AssumedBound

LOG = b"""{"id": 1, "shop": "a", "campaign": "x"}
{"id": 2, "shop": "a", "campaign": "y"}
{"id": 1, "shop": "b", "campaign": "x"}
{"id": 1, "shop": "b"}
{"shop": "c", "campaign": "z"}
"""


@pytest.mark.parametrize(
    ("left", "right", "found"),
    [
        ("id", "campaign", ""),
        ("id", "shop", "id = 1 has the shop a and b"),
        ("shop", "campaign", "shop = a has the campaign x and y"),
        ("id shop", "campaign id", ""),
        ("campaign", "id", ""),
        ("shop id", "missing", ""),
    ],
)
def test_two_values_for_one_key_contradict(tmp_path: Path, left: str, right: str, found: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(LOG)
    assert contradiction(str(log), left.split(), right.split()) == found


def test_an_empty_log_contradicts_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    assert contradiction(str(log), ["id"], ["shop"]) == ""


@pytest.mark.parametrize(
    ("bound", "found"),
    [
        (AssumedBound("id", 1), ""),
        (AssumedBound("id", 2), "a record has the id 1"),
        (AssumedBound("id", 2, upper=True), ""),
        (AssumedBound("id", 1.5, upper=True), "a record has the id 2"),
        (AssumedBound("missing", 0), ""),
        (AssumedBound("shop", 0), ""),
    ],
)
def test_a_value_beyond_a_bound_contradicts_it(tmp_path: Path, bound: AssumedBound, found: str) -> None:
    log = tmp_path / "log"
    log.write_bytes(LOG)
    assert excess(str(log), bound) == found


def test_an_empty_log_exceeds_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.touch()
    assert excess(str(log), AssumedBound("id", 0)) == ""
