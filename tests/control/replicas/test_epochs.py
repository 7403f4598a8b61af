"""The highest epoch of every job survives a restart; only jobs without a concern here are forgotten."""

from __future__ import annotations

import pytest

from elfmesh.control.protocol.events import Persist
from elfmesh.control.replicas import epochs
from elfmesh.control.replicas.epochs import Epochs, Tombstones
from tests.control.contexts import new_context


def job(number: int) -> bytes:
    return number.to_bytes(20)


def test_an_epoch_is_on_disk_when_it_is_higher_and_only_then() -> None:
    context = new_context(1)
    known = Epochs(context, lambda _: False)
    for epoch in (3, 2, 3, 5):
        known.note(job(1), epoch)
    written = [effect for effect in context.out if isinstance(effect, Persist)]
    assert [int.from_bytes(effect.data) for effect in written] == [3, 5]
    assert known.of(job(1)) == 5
    assert known.of(job(2)) == 0

    again = Epochs(new_context(1), lambda _: False)
    again.restored({effect.key: int.from_bytes(effect.data) for effect in written})
    assert again.of(job(1)) == 5


def test_beyond_the_bound_the_first_noted_go_from_the_disk_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "EPOCHS_MAX", 3)
    context = new_context(1)
    known = Epochs(context, lambda each: each == job(0))
    for number in range(5):
        known.note(job(number), 1)
    assert [known.of(job(number)) for number in range(5)] == [1, 0, 0, 1, 1], "this agent works on the first"
    gone = [effect.key for effect in context.out if isinstance(effect, Persist) and not effect.data]
    assert gone == [job(1), job(2)]


def test_jobs_of_this_agent_are_kept_beyond_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "EPOCHS_MAX", 2)
    known = Epochs(new_context(1), lambda _: True)
    for number in range(4):
        known.note(job(number), 1)
    assert [known.of(job(number)) for number in range(4)] == [1, 1, 1, 1]


def test_the_last_incarnation_that_was_over_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epochs, "TOMBSTONES_MAX", 2)
    over = Tombstones()
    for number, incarnation in ((1, "a"), (2, "b"), (1, "c"), (3, "d")):
        over.add(job(number), incarnation)
    assert [over.of(job(number)) for number in (1, 2, 3)] == ["c", None, "d"]
    assert job(2) not in over
