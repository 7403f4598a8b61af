"""Each record that comes late to a member is in one bucket of one interval (D-1, D-12)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from elfmesh.control.jobs.records import CONTRIBUTED, EXPIRED, LATE
from elfmesh.control.member.accounts.ledger import Ledger
from elfmesh.control.member.accounts.ledger_state import SAME
from elfmesh.control.member.contributions import Contributions
from elfmesh.control.member.worker_generations import WorkerGenerations
from elfmesh.control.protocol.events import Revised
from elfmesh.storage.frames import RevisedInterval
from tests.control.member import member_boots
from tests.control.member.member_boots import Boot, First, records

STEPS = ("seal", "seal", "seal", "late", "late", "late", "close", "close", "watermark", "restart", "change")


def story(seed: int, first: int = 0) -> tuple[int, int]:
    """How many records stand in all buckets in the end, and how many were written.

    The member is expected from interval `first` on.
    """
    rng = random.Random(f"late/{seed}")
    boot = Boot(rng, first)
    for _ in range(rng.randrange(10, 60)):
        step = rng.choice(STEPS)
        number = rng.randrange(3) if step != "close" else rng.choice((0, 1, 1))
        getattr(boot, step)(number)
    return sum(boot.finish()) + sum(boot.member.ledger.state.pending_corrections), boot.written


@pytest.mark.parametrize("seed", range(100))
def test_each_record_is_counted_once(seed: int) -> None:
    found, written = story(seed)
    assert found == written


@pytest.mark.parametrize("first", [1, 3, 6])
@pytest.mark.parametrize("seed", range(80))
def test_each_record_of_a_member_that_joins_late_is_counted_once(seed: int, first: int) -> None:
    found, written = story(seed, first)
    assert found == written


@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_what_came_late_for_an_interval_without_records_before_the_first_is_counted(restarts: int) -> None:
    """It was taken into what waited to be settled, which then was behind what the next range had counted."""
    boot = Boot(First(), first=3)
    boot.seal(0)
    boot.late(0)
    for number in (2, 2, 1):
        boot.seal(number)
    for _ in range(4):
        boot.close(1)
    for _ in range(restarts):
        boot.restart()
    totals = boot.finish()
    assert (totals[CONTRIBUTED], totals[LATE], totals[EXPIRED]) == (boot.written - 5, 1, 4)


def _seq_alone(revised: RevisedInterval, received: int, floor: int) -> bool:
    return bool(revised.counts) and revised.seq > received


def _not_if_it_had_nothing(self: Ledger, event: Revised, *, had_nothing: bool) -> bool:
    return REVISE(self, event, had_nothing=False)


def _what_is_cut_off_is_forgotten(self: Contributions, at: int) -> None:
    REWIND(self, at)
    while self._kept and self._kept[-1].event.stop <= (self._closed or 0):
        self._kept.pop()


REVISE, REWIND = Ledger._revise, Contributions.rewind
WITHOUT: dict[str, tuple[Any, str, Any]] = {
    "a worker that a change was not told does not go on": (
        WorkerGenerations,
        "changed",
        lambda self, at: None,
    ),
    "what had nothing is settled with its revision": (Ledger, "_revise", _not_if_it_had_nothing),
    "what an annulled revision has added is forgotten": (Ledger, "rewound", lambda self, at: None),
    "what an annulled interval took along is pending again": (Ledger, "remade", lambda self, event: SAME),
    "what a change cuts off where it is closed is settled": (
        Contributions,
        "rewind",
        _what_is_cut_off_is_forgotten,
    ),
    "what is not released is told again": (member_boots, "is_reported_again", _seq_alone),
}


@pytest.mark.parametrize("safeguard", WITHOUT)
def test_without_it_some_story_counts_otherwise(safeguard: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*WITHOUT[safeguard])
    assert any(found != written for found, written in map(story, range(400)))


@pytest.mark.parametrize("records_in_time", [0, 1])
@pytest.mark.parametrize("restarts", [0, 1, 2])
def test_what_came_late_for_what_is_closed_is_late_once(records_in_time: int, restarts: int) -> None:
    """Of an interval that had nothing, it became a pending correction at once, and again when a restart said
    what frames have.

    Of one that had something, it was in nothing: what was heard of was not told again, settled or not.
    """
    boot = Boot(First())
    for number in (1, records_in_time):
        boot.seal(number)
        boot.close(1)
    boot.restart()
    boot.late(0)
    boot.seal(1)
    boot.close(1)
    boot.change(0)
    for _ in range(restarts):
        boot.restart()
    totals = boot.finish()
    assert (totals[CONTRIBUTED], totals[LATE]) == (boot.written - 1, 1)


def test_what_went_up_with_a_contribution_counts_once_if_it_is_revised_while_it_waits() -> None:
    """A restarted member that leaves holds back what it says again until it has a last interval."""
    boot = Boot(First())
    boot.seal(2)
    boot.close(0)
    boot.watermark()
    boot.seal(1)
    assert sum(boot.up[1][1]) == 3, "the record of its interval, and the pending corrections"
    boot.restart(leaving=True)
    assert not boot.up, "it waits"
    boot.late(0)
    boot.tell_terms(until=9)
    assert sum(boot.up[1][1]) == 4


def test_a_revision_by_a_worker_that_has_not_received_a_change_counts_nothing() -> None:
    """Its record is in what the next worker makes of the interval."""
    boot = Boot(First())
    boot.seal(1)
    boot.seal(1)
    before = boot._saying
    boot.change(2, at_once=False)
    late = RevisedInterval(1, 2, list(records(2)), [b"p"], list(records(1)), 1, 1)
    boot.member.revised(before.revised(late))
    assert not any(boot.member.ledger.state.pending_corrections)
