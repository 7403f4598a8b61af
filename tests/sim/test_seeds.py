"""The files that run the swarm's seeds run all of them."""

from __future__ import annotations

from pathlib import Path

from tests.sim.seeds.share import SEEDS, SHARES, seeds
from tests.sim.swarm.regressions import KEPT, OPEN, OPEN_SEEDS, REGRESSIONS, scenario
from tests.sim.swarm.scenario import draw


def test_every_seed_has_its_share() -> None:
    shared = [seed for share in range(SHARES) for seed in seeds(share)]
    assert len(shared) == len({*shared})
    assert {*shared} == {*range(SEEDS), *REGRESSIONS} - {*OPEN_SEEDS}
    found = sorted(path.name for path in (Path(__file__).parent / "seeds").glob("test_*.py"))
    assert found == [f"test_share_{share:02}.py" for share in range(SHARES)]


def test_every_kept_scenario_is_a_regression_or_open() -> None:
    assert {path.stem for path in KEPT.glob("*.json")} == {*REGRESSIONS, *OPEN}
    assert not {*REGRESSIONS} & {*OPEN}
    assert all(scenario(name).jobs for name in (*REGRESSIONS, *OPEN))
    assert {*OPEN_SEEDS} <= {scenario(name).seed for name in OPEN}


def test_three_hundred_seeds_have_eighteen_hours_of_faults() -> None:
    """Of one cluster each, however many agents it has. The quiet before and after them makes it twenty."""
    assert sum(draw(seed).safety_s for seed in range(300)) > 18 * 3600
