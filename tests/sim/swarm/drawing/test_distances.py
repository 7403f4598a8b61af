"""Seeds whose links have different latencies: their masters place, and every invariant holds."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import pytest

from elfmesh.control.paths import layouts
from elfmesh.control.paths.latency_placement import LatencyPlacement, better_placement
from tests.exhaustive import few
from tests.sim.swarm.drawing import wide
from tests.sim.swarm.drawing.distances import GAIN, Distances, placing
from tests.sim.swarm.judging.sites import AT_SITES
from tests.sim.swarm.run import check, run
from tests.sim.swarm.scenario import draw
from tests.sim.swarm.soak import quiet

FIRST, LAST = wide.DISTANT_FROM, wide.DISTANT_FROM + 200


def test_seeds_from_a_number_on_draw_distances_where_jobs_close_by_votes() -> None:
    assert not any(draw(seed).distances for seed in range(FIRST))
    drawn = [draw(seed) for seed in range(FIRST, LAST)]
    distant = [each for each in drawn if each.distances]
    voting = [each for each in drawn if wide.kind_of(each.seed) == wide.VOTES]
    assert 0.3 < len(distant) / len(voting) < 0.7
    assert all(each in voting for each in distant)


def test_a_pair_has_one_latency_below_the_largest() -> None:
    distances = Distances(0.25, 7.0)
    pairs = [(bytes([one]), bytes([other])) for one in range(8) for other in range(one)]
    found = {distances.of(*pair) for pair in pairs}
    assert len(found) > len(pairs) / 2
    assert max(found) <= 0.25
    assert all(distances.of(one, other) == distances.of(other, one) for one, other in pairs)


def test_the_period_of_a_run_ends_with_it() -> None:
    before = layouts.PLAN_S, layouts.GAIN
    with placing(Distances(0.1, 7.0)):
        assert (layouts.PLAN_S, layouts.GAIN) == (7.0, GAIN)
    with placing(None):
        assert before == (layouts.PLAN_S, layouts.GAIN)


@pytest.mark.parametrize("number", few((3, 0, 2), 1))
def test_masters_place_in_a_seed_with_distances_and_every_invariant_holds(number: int) -> None:
    quiet()
    drawn = [each for seed in range(FIRST, FIRST + 40) if (each := draw(seed)).distances][number]
    lived = replace(drawn, hosts=8, racks=3, safety_s=40.0, faults=(), distances=Distances(0.25, 7.0))
    placed: list[LatencyPlacement] = []

    def noted(*about: object) -> LatencyPlacement | None:
        found = better_placement(*about)  # type: ignore[arg-type]  # passed on as they come
        placed.extend([found] if found is not None and found.cost <= layouts.GAIN * found.before else [])
        return found

    with mock.patch.object(layouts, "better_placement", noted):
        outcome = run(lived)
    assert placed, "a placement is better than the one by labels"
    assert outcome.history.counters[AT_SITES] > 0
    assert check(outcome) == {}
