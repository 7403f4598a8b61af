"""Which loop reads next and how much, by what its blocks cost; in a world of numbers."""

from __future__ import annotations

import random

import pytest

from elfmesh.ingest.budget.costs import SEAL_S
from elfmesh.ingest.scheduling.round_robin import (
    ABSENT_S,
    BEGIN_BYTES,
    BLOCKS,
    BYTES_MIN,
    CLOSING_S,
    OVERDRAFTS,
    PATIENCE_S,
    QUANTUM_S,
    SLOW_S,
    LoopAccount,
)
from elfmesh.ingest.scheduling.scheduler import Scheduler
from tests.ingest.budget.test_allowance import Clock

MOST = 4 << 20


def wall_us() -> int:
    return 1_000_000


def charge(
    loop: LoopAccount, costs: dict[str, float], *, nbytes: int = 1, has_more: bool = False
) -> str | None:
    return loop.charge(nbytes, sum(costs.values()), costs, has_more)


def test_only_a_job_that_is_slow_again_and_again_beside_others_is_named() -> None:
    slow, quick = {"bad": 2 * SLOW_S, "good": 0.001, "fine": 0.002}, {"bad": 0.001, "good": 0.001}
    loop = Scheduler().open(MOST)
    assert [charge(loop, slow) for _ in range(OVERDRAFTS)] == [None] * (OVERDRAFTS - 1) + ["bad"]
    assert [charge(loop, slow) for _ in range(OVERDRAFTS - 1)] == [None] * (OVERDRAFTS - 1), "it begins again"
    for _ in range(BLOCKS):
        assert charge(loop, quick) is None
    assert charge(loop, slow) is None, "what was long ago does not count"
    alike = {"a": 2 * SLOW_S, "b": SLOW_S, "c": SLOW_S}
    assert not any(charge(loop, alike) for _ in range(BLOCKS)), "all are slow: the machine is"
    assert not any(charge(loop, {"alone": 1.0}) for _ in range(BLOCKS))


def test_a_block_costs_about_a_quantum_and_only_much_for_little_is_slow() -> None:
    scheduler = Scheduler()
    quick, slow = scheduler.open(MOST, apart=True), scheduler.open(MOST, apart=True)
    for _ in range(20):
        charge(quick, {"a": QUANTUM_S / 4}, nbytes=quick.bytes_max)
    assert (quick.bytes_max, quick.is_slow) == (MOST, False)
    charge(quick, {"a": 4 * QUANTUM_S}, nbytes=MOST)
    assert (quick.bytes_max, quick.is_slow) == (MOST // 2, False), "much work for much data"
    charge(slow, {"a": QUANTUM_S}, nbytes=BEGIN_BYTES)
    assert not slow.is_slow, "it may have loaded something"
    for _ in range(20):
        charge(slow, {"a": 4 * QUANTUM_S}, nbytes=slow.bytes_max)
        charge(slow, {"a": 0.0}, nbytes=0)
    assert (slow.bytes_max, slow.is_slow) == (BYTES_MIN, True)


def test_a_loop_apart_yields_while_a_shared_one_closes_but_not_for_ever() -> None:
    scheduler = Scheduler()
    other, loop = scheduler.open(MOST), scheduler.open(MOST, apart=True)
    charge(loop, {"a": 0.02})
    assert loop.delay_s(1.0, wall_us) == 0.0, "nothing is known to close"
    other.due_us = 1_050_000
    assert loop.delay_s(1.0, wall_us) == 0.0, "there is time for a block"
    charge(loop, {"a": 0.03})
    loop.delay_s(1.0, wall_us)
    assert loop.delay_s(1.0, wall_us) == pytest.approx(0.05 + CLOSING_S)
    other.due_us = 990_000
    assert loop.delay_s(1.0, wall_us) == pytest.approx(CLOSING_S - 0.01)
    other.due_us, other.sealed_s = 2_000_000, 0.98
    assert loop.delay_s(1.0, wall_us) == pytest.approx(CLOSING_S - 0.02)
    begun = 0
    for now in range(100, 200):
        other.sealed_s = now / 100
        begun += loop.delay_s(now / 100, wall_us) == 0.0
    assert begun == pytest.approx(1.0 / PATIENCE_S, abs=1), "loops that close all the time are not waited for"
    assert other.delay_s(1.0, wall_us) == 0.0
    scheduler.close(other)
    assert loop.delay_s(2.0, wall_us) == 0.0


def test_every_loop_waits_for_the_agent_and_each_knows_how_long() -> None:
    clock, used = Clock(), Clock()
    scheduler = Scheduler(0.5, 0.5, clock=clock, used_s=used)
    shared, apart = scheduler.open(MOST), scheduler.open(MOST, apart=True)
    used.now = 1.25
    assert shared.delay_s(1.0, wall_us) == apart.delay_s(1.3, wall_us) == 2.0
    assert shared.take_waited_s(2.0) == pytest.approx(1.0)
    assert apart.take_waited_s(2.0) == pytest.approx(0.7)
    clock.now = 10.0
    assert shared.delay_s(2.5, wall_us) == apart.delay_s(2.5, wall_us) == 0.0
    assert shared.take_waited_s(3.0) == pytest.approx(0.5)
    assert shared.take_waited_s(4.0) == 0.0


@pytest.mark.parametrize(
    ("costs", "seconds"),
    [
        ({"quick": QUANTUM_S, "slow": 25 * QUANTUM_S}, 100.0),
        ({"a": 0.6 * QUANTUM_S, "b": 1.9 * QUANTUM_S, "c": 5 * QUANTUM_S}, 20.0),
        ({"one": QUANTUM_S}, 2.0),
    ],
    ids=["a block of half a second", "three alike", "alone"],
)
def test_loops_apart_with_backlogs_get_equal_time_whatever_their_blocks_cost(
    costs: dict[str, float], seconds: float
) -> None:
    rng, scheduler = random.Random(1), Scheduler()
    loops = {name: scheduler.open(MOST, apart=True) for name in costs}
    used, now_s = dict.fromkeys(costs, 0.0), 0.0
    while now_s < seconds:  # one processor
        ready = [name for name in costs if loops[name].delay_s(now_s, wall_us) == 0.0]
        assert ready, "there is always one that may read"
        name = rng.choice(ready)
        used[name] += costs[name]
        ends_s = now_s + costs[name]
        while now_s < ends_s:
            now_s += min(0.1, ends_s - now_s)
            for other in costs.keys() - {name}:
                loops[other].delay_s(now_s, wall_us)
        charge(loops[name], {name: costs[name]}, nbytes=BYTES_MIN, has_more=True)
    least, most = min(used.values()), max(used.values())
    assert most - least <= 2 * (QUANTUM_S + max(costs.values()))


def test_a_loop_that_hangs_or_has_read_everything_delays_no_other() -> None:
    scheduler = Scheduler()
    first, second = scheduler.open(MOST, apart=True), scheduler.open(MOST, apart=True)
    for loop in (first, second):
        assert loop.delay_s(1.0, wall_us) == 0.0
        charge(loop, {"a": QUANTUM_S}, has_more=True)
    assert first.delay_s(1.0, wall_us) == 0.0, "the next round: both have a turn"
    charge(first, {"a": 2 * QUANTUM_S}, has_more=True)
    now_s = 1.0 + ABSENT_S
    assert first.delay_s(now_s - 0.1, wall_us) > 0.0, "the other has not had its turn"
    assert first.delay_s(now_s, wall_us) == 0.0, "it does not ask any more"
    charge(first, {"a": 2 * QUANTUM_S}, has_more=True)
    assert second.delay_s(now_s, wall_us) == 0.0
    charge(second, {"a": 0.0}, has_more=False)
    assert first.delay_s(now_s, wall_us) == 0.0, "the other is at the end of its files"


def test_a_loop_saves_no_time_while_it_has_nothing_to_read() -> None:
    scheduler = Scheduler()
    idle, busy = scheduler.open(MOST, apart=True), scheduler.open(MOST, apart=True)
    for each in range(100):
        assert idle.delay_s(each / 10, wall_us) == busy.delay_s(each / 10, wall_us) == 0.0
        charge(idle, {"a": 0.0}, has_more=False)
        charge(busy, {"a": QUANTUM_S}, has_more=True)
    blocks = 0
    while idle.delay_s(10.0, wall_us) == 0.0:
        charge(idle, {"a": QUANTUM_S}, has_more=True)
        blocks += 1
        assert blocks < 4, "it takes more than its share"


def test_a_turn_also_costs_what_other_threads_do_for_the_sealed_intervals() -> None:
    scheduler = Scheduler()
    sealing, other = scheduler.open(MOST, apart=True), scheduler.open(MOST, apart=True)
    for loop in (sealing, other):
        assert loop.delay_s(1.0, wall_us) == 0.0
    other.charge(BYTES_MIN, QUANTUM_S / 8, {}, True)
    sealing.charge(BYTES_MIN, QUANTUM_S / 8, {}, True, intervals=100)
    blocks = 0
    while sealing.delay_s(1.0, wall_us) > 0.0:
        assert other.delay_s(1.0, wall_us) == 0.0
        other.charge(BYTES_MIN, QUANTUM_S / 2, {}, True)
        blocks += 1
    assert blocks == pytest.approx(100 * SEAL_S / (QUANTUM_S / 2), abs=4)
