from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from elfmesh.ingest.budget.allowance import BURST_S, OVERDRAFT_S, Allowance, ProcessAllowance


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.floats(0.01, 4.0), st.lists(st.floats(0.0, 0.2), min_size=1, max_size=200))
@example(cores=0.05, costs=[0.12] * 40)  # each more than the whole overdraft, less than overdraft and burst
def test_a_worker_that_waits_for_the_delay_never_uses_more_than_is_allowed(
    cores: float, costs: list[float]
) -> None:
    clock, used = Clock(), 0.0
    allowance = Allowance(cores, clock)
    forgiven = 0.0
    for cost in costs:
        clock.now += allowance.delay_s
        assert allowance.delay_s <= 1e-9
        forgiven += max(0.0, cost - cores * OVERDRAFT_S)
        allowance.charge(cost)
        used += cost
        assert used <= cores * (clock.now + BURST_S) + max(costs) + forgiven + 1e-6 + cores * OVERDRAFT_S
        assert allowance.delay_s <= OVERDRAFT_S + 1e-9


def test_over_a_long_time_exactly_the_share_is_used() -> None:
    clock, used = Clock(), 0.0
    allowance = Allowance(0.25, clock)
    while clock.now < 400:
        clock.now += max(allowance.delay_s, 0.001)
        if allowance.delay_s == 0:
            allowance.charge(0.05)
            used += 0.05
            clock.now += 0.05
    assert used / clock.now == pytest.approx(0.25, rel=0.02)


def test_a_tiny_allowance_still_lets_the_next_piece_begin() -> None:
    clock = Clock()
    allowance = Allowance(0.001, clock)
    allowance.charge(60.0)
    assert allowance.delay_s == pytest.approx(OVERDRAFT_S)
    with pytest.raises(ValueError, match="positive"):
        Allowance(0.0, clock)


def test_what_other_threads_use_is_taken_off_what_reading_gets() -> None:
    clock, used = Clock(), Clock()
    allowance = ProcessAllowance(0.5, clock, used)
    assert allowance.delay_s == 0.0
    used.now += 0.75  # of which a quarter was saved up
    assert allowance.delay_s == pytest.approx(1.0)
    clock.now += 1.0
    assert allowance.delay_s == pytest.approx(0.0)
