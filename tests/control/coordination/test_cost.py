from __future__ import annotations

import pytest

from elfmesh.control.coordination.cost import (
    EARLY,
    FORMULAS,
    ORDERED,
    SEAL_INTERVAL,
    SEAL_KEY,
    SEQUENCED,
    WAITS_FOR,
    WEIGHTS,
    Circumstances,
    expected_s,
)

AT = Circumstances(
    lateness_s=10, barrier_s=0.5, every_s=20, sequence_every_s=30, early_s=40, hop_s=0.01, sync_s=0.002
)


@pytest.mark.parametrize(
    ("strategy", "seconds"),
    [(SEAL_INTERVAL, 10.5), (SEAL_KEY, 20.5), (SEQUENCED, 30.5), (ORDERED, 0.032), (EARLY, 40.01)],
)
def test_the_expected_latency_is_that_of_the_formula(strategy: str, seconds: float) -> None:
    assert expected_s(strategy, AT) == pytest.approx(seconds)
    assert FORMULAS[strategy]
    assert WAITS_FOR[strategy]


def test_early_rows_are_no_repair() -> None:
    assert EARLY not in WEIGHTS
