"""An address that cannot be reached is left alone for longer and longer, and forgotten in the end."""

from __future__ import annotations

import pytest

from elfmesh.agent.net import backoff
from elfmesh.agent.net.backoff import BACKOFF_MAX_S, BACKOFF_MIN_S, KEPT_S, Backoff

HERE = ("10.0.0.1", 7400)


def test_every_failure_doubles_the_wait_up_to_a_bound_and_success_ends_it() -> None:
    left = Backoff()
    assert not left.holds(HERE, 0.0)
    waits = []
    for _ in range(7):
        left.failed(HERE, 100.0)
        waits.append(next(s / 10 for s in range(1, 1000) if not left.holds(HERE, 100.0 + s / 10)))
    assert waits == [BACKOFF_MIN_S, 0.4, 0.8, 1.6, 3.2, BACKOFF_MAX_S, BACKOFF_MAX_S]
    left.reached(HERE)
    assert not left.holds(HERE, 100.0)


def test_failures_are_forgotten_after_a_while_and_beyond_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backoff, "BACKOFFS_MAX", 2)
    left = Backoff()
    for port in range(3):
        left.failed(("10.0.0.1", port), 0.0)
    assert not left.holds(("10.0.0.1", 0), 0.0), "the oldest"
    assert left.holds(("10.0.0.1", 2), 0.0)
    left.sweep(KEPT_S)
    assert len(left) == 2
    left.sweep(KEPT_S + 2 * BACKOFF_MIN_S)
    assert len(left) == 0
