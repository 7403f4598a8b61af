"""What is decided about open intervals, as a table: from what is known of one to what becomes of it."""

from __future__ import annotations

from typing import Any

import pytest

from elfmesh.control.closing.decisions import (
    OVERFULL,
    Decision,
    LateDecision,
    decide,
    decide_late,
)
from elfmesh.control.closing.stores.partial_store import HELD_BYTES_MAX
from elfmesh.control.closing.straggler_policy import HORIZON_S, SKIP_AGAIN_S

A, B = 1, 2
ALL = A | B

RUNS: list[tuple[str, dict[str, Any], Decision | None]] = [
    ("no member has records, none is missing", {}, Decision(4, 9, False, ALL, 0, "FINAL")),
    ("the first with records ends the run", {"first": 6}, Decision(4, 7, True, ALL, 0, "FINAL")),
    ("it has to wait itself", {"first": 4, "settled": False}, None),
    (
        "what is before it does not wait for it",
        {"first": 6, "settled": False, "torn": A},
        Decision(4, 6, False, ALL, 0, "FINAL"),
    ),
    (
        "a missing member is named although no member has records",
        {"missing": B, "state": "FINAL_PARTIAL"},
        Decision(4, 9, True, ALL, B, "FINAL_PARTIAL", since=4),
    ),
    ("numbers outside are passed on", {"outside": 8}, Decision(4, 9, False, ALL, outside=8)),
    (
        "what fails is missing",
        {"first": 4, "failed": B},
        Decision(4, 5, True, ALL, B, "FINAL_PARTIAL"),
    ),
    (
        "what fails and is not expected is not",
        {"first": 4, "required": A, "failed": B},
        Decision(4, 5, True, A, 0, "FINAL"),
    ),
    (
        "a skipped interval stays skipped",
        {"first": 4, "missing": B, "state": "SKIPPED", "failed": A},
        Decision(4, 5, True, ALL, ALL, "SKIPPED"),
    ),
    (
        "a torn member is missing where it is torn",
        {"first": 4, "torn": A},
        Decision(4, 5, True, ALL, A, "FINAL_PARTIAL", A),
    ),
    (
        "and not from the run before",
        {"first": 6, "torn": A},
        Decision(4, 6, False, ALL, 0, "FINAL"),
    ),
    (
        "unless it is missing from that too",
        {"first": 6, "torn": A, "missing": A, "state": "FINAL_PARTIAL"},
        Decision(4, 7, True, ALL, A, "FINAL_PARTIAL", A, 4),
    ),
]


@pytest.mark.parametrize(("known", "run"), [case[1:] for case in RUNS], ids=[case[0] for case in RUNS])
def test_the_run_that_ends_now(known: dict[str, Any], run: Decision | None) -> None:
    usual = {"start": 4, "stop": 9, "first": None, "state": "FINAL", "settled": True}
    usual |= {"required": ALL, "missing": 0, "failed": 0, "torn": 0, "outside": 0}
    assert decide(**usual | known) == run


WAITS: dict[str, Any] = {"now": 100.0, "due_since": 98.0, "state": None, "again_at": 101.0, "held_up": False}
WAITS |= {"copies_at": float("-inf"), "held_bytes": 0}
SKIPS, PARTIAL = WAITS | {"state": "SKIPPED"}, WAITS | {"state": "FINAL_PARTIAL"}
LATE: list[tuple[str, dict[str, Any], LateDecision]] = [
    ("the policy waits", WAITS, LateDecision(None, 101.0)),
    ("the policy skips", SKIPS, LateDecision("SKIPPED", 101.0)),
    ("the policy gives up", PARTIAL, LateDecision("FINAL_PARTIAL", 101.0)),
    (
        "what may be on its way is not skipped yet",
        SKIPS | {"held_up": True},
        LateDecision(None, 100.0 + SKIP_AGAIN_S),
    ),
    (
        "but not for ever",
        SKIPS | {"held_up": True, "due_since": 100.0 - HORIZON_S},
        LateDecision("SKIPPED", 101.0),
    ),
    ("copies are awaited", PARTIAL | {"copies_at": 100.5}, LateDecision(None, 100.5)),
    ("until they should be here", PARTIAL | {"copies_at": 100.0}, LateDecision("FINAL_PARTIAL", 101.0)),
    ("who skips awaits none", SKIPS | {"copies_at": 100.5}, LateDecision("SKIPPED", 101.0)),
    (
        "no member is waited for when too much is held",
        WAITS | {"held_bytes": HELD_BYTES_MAX + 1},
        LateDecision("FINAL_PARTIAL", 101.0, OVERFULL),
    ),
    (
        "not even copies",
        PARTIAL | {"copies_at": 100.5, "held_bytes": HELD_BYTES_MAX + 1},
        LateDecision("FINAL_PARTIAL", 100.5, OVERFULL),
    ),
    ("that much may be held", WAITS | {"held_bytes": HELD_BYTES_MAX}, LateDecision(None, 101.0)),
]


@pytest.mark.parametrize(("known", "decision"), [case[1:] for case in LATE], ids=[case[0] for case in LATE])
def test_what_becomes_of_an_interval_that_lacks_members(
    known: dict[str, Any], decision: LateDecision
) -> None:
    assert decide_late(**known) == decision
