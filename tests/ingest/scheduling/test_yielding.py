"""A job that is read by itself stands back while the others close an interval, but not for ever."""

from __future__ import annotations

import pytest

from elfmesh.ingest.scheduling.yielding import CLOSING_S, PATIENCE_S, Yielding


class Closer:
    """Closes an interval at its moments."""

    def __init__(self) -> None:
        self.due_us: int | None = None
        self.sealed_s = float("-inf")


def test_who_is_read_by_himself_stands_back_while_the_others_close_but_not_for_ever() -> None:
    other = Closer()
    yielding = Yielding(lambda: [other], lambda: 1_000_000)
    assert yielding.delay_s(1.0, 0.02) == 0.0, "nothing is known to close"
    other.due_us = 1_050_000
    assert yielding.delay_s(1.0, 0.02) == 0.0, "there is time for a block"
    assert yielding.delay_s(1.0, 0.03) == pytest.approx(0.05 + CLOSING_S)
    other.due_us = 990_000
    assert yielding.delay_s(1.0, 0.02) == pytest.approx(CLOSING_S - 0.01)
    other.due_us, other.sealed_s = 2_000_000, 0.98
    assert yielding.delay_s(1.0, 0.02) == pytest.approx(CLOSING_S - 0.02)
    begun = [now / 100 for now in range(100, 200) if not _waits(yielding, other, now / 100)]
    assert len(begun) == pytest.approx(1.0 / PATIENCE_S, abs=1), "who closes all the time is not waited for"


def _waits(yielding: Yielding, other: Closer, now_s: float) -> bool:
    other.sealed_s = now_s
    return yielding.delay_s(now_s, 0.02) > 0.0
