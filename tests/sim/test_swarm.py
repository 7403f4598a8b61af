"""Seeds of the swarm, in the suite; `make soak-sim` runs thousands. `ELF_SIM_SEEDS` sets how many."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from tests.sim.swarm.ablations import REGISTRY, without
from tests.sim.swarm.regressions import OPEN, REGRESSIONS
from tests.sim.swarm.soak import REPLAY, faults_of, one

SEEDS = int(os.environ.get("ELF_SIM_SEEDS", "16"))
QUICK = {"replay-boundary": 3, "open-panes": 3, "sync-before-send": 3, "watermark": 2, "lateness": 3}
"""Safeguards whose absence shows at once, and within how many seeds."""


@pytest.fixture(scope="module")
def pool() -> Iterator[ProcessPoolExecutor]:
    with ProcessPoolExecutor(os.cpu_count() or 1, mp_context=get_context("spawn")) as processes:
        yield processes


def _wrong(entries: list[dict[str, Any]]) -> list[str]:
    return [f"{REPLAY.format(seed=entry['seed'])}: {entry['wrong']}" for entry in entries if entry["wrong"]]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_seeds_hold_every_invariant_that_is_promised(pool: ProcessPoolExecutor) -> None:
    assert not _wrong(list(pool.map(one, [seed for seed in range(SEEDS) if seed not in OPEN])))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_seeds_that_showed_a_bug_hold(pool: ProcessPoolExecutor) -> None:
    assert not _wrong(list(pool.map(one, REGRESSIONS)))


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [pytest.param(seed, id=why) for seed, why in OPEN.items()])
def test_open_findings_are_still_open(pool: ProcessPoolExecutor, seed: int) -> None:
    assert next(iter(pool.map(one, [seed])))["wrong"], "it holds now: move it to REGRESSIONS"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("safeguard", QUICK)
def test_without_a_safeguard_an_invariant_fails(safeguard: str) -> None:
    assert any(faults_of(seed, safeguard) for seed in range(1, 1 + QUICK[safeguard]))


def test_every_safeguard_can_be_removed_and_comes_back() -> None:
    for name, ablation in REGISTRY.items():
        before = [(owner, attribute, getattr(owner, attribute)) for owner, attribute, _ in ablation.patches()]
        with without(name):
            assert all(getattr(owner, attribute) is not value for owner, attribute, value in before), name
        assert all(getattr(owner, attribute) is value for owner, attribute, value in before), name


@pytest.mark.timeout(600)
def test_the_same_seed_gives_the_same_trace_under_two_hash_seeds() -> None:
    """I15."""
    told = set()
    for hash_seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", "from tests.sim.swarm.soak import one; print(one(2)['trace'])"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        told.add(done.stdout)
    assert len(told) == 1
