"""Latencies between agents that change with time: recorded round trips, or generated ones.

Owns the matrices for `wide_area`, `wide_model` and `wide_sim`. A `WideNetwork` has the latency one way of
each pair of agents (half of the round trip) in each slice of `STEP_S`, and the region of each agent.

`reference` is PlanetLab in five regions of near hosts; its pairs in different regions stall as pairs of the
Seattle trace do. `seattle` is that trace alone. The traces are no part of the project. Where they are absent,
`drawn` has places in a plane, with access links and detours, whose pairs stall with the same quantiles.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.harness import ROOT

DATA = ROOT.parent / "shared/data/wan"
REGIONS = 5
STEP_S = 15.7
"""How long one slice of the Seattle trace counts."""

DEVELOPED = 20
"""Slices of the Seattle trace with which the runs were developed; figures are of the later ones."""

QUANTILES = (0.0, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1.0)
FACTORS = (0.1, 0.2, 0.65, 1.0, 3.7, 14.0, 43.0, 60.0)
"""The factor by which a pair of the Seattle trace is slower than its median: of generated stalls."""

STAYS = 0.85
"""Chance that a stalled pair of the Seattle trace is stalled in the next slice, too."""

Matrix = NDArray[np.float64]


@dataclass(frozen=True)
class Trace:
    """Matrices of round trips in seconds, of `size` agents of a fleet."""

    name: str
    pattern: str
    unit_s: float
    size: int

    @property
    def is_absent(self) -> bool:
        return bool(self.pattern) and not any(DATA.glob(self.pattern))


DRAWN = Trace("drawn", "", 1.0, 60)
PLANETLAB = Trace("PlanetLab", "PlanetLabData_*", 1e-3, 60)
SEATTLE = Trace("Seattle", "SeattleData_*", 1.0, 60)
TRACES = (DRAWN, PLANETLAB, SEATTLE)


@dataclass(frozen=True)
class WideNetwork:
    """Latencies of some agents.

    Attributes:
        name: of the trace.
        usual: seconds one way between two agents, without stalls.
        delays: the same by slice, with stalls.
        regions: of each agent.
    """

    name: str
    usual: Matrix
    delays: Matrix
    regions: tuple[str, ...]

    @property
    def calm(self) -> WideNetwork:
        """The same network without stalls."""
        return WideNetwork(f"{self.name}, calm", self.usual, self.usual[None], self.regions)


@lru_cache
def slices_of(trace: Trace) -> Matrix:
    """Return the latencies one way by time, symmetric; infinite where a pair was not measured."""
    paths = sorted(DATA.glob(trace.pattern), key=lambda path: int(path.name.rpartition("_")[2]))
    slices: Matrix = np.stack([np.loadtxt(path) for path in paths]) * trace.unit_s / 2
    slices[slices <= 0] = np.inf
    slices = np.minimum(slices, slices.transpose(0, 2, 1))
    slices[:, np.arange(slices.shape[1]), np.arange(slices.shape[1])] = 0.0
    return slices


@lru_cache
def read(trace: Trace) -> Matrix:
    """Return the usual latencies one way: half of the least of the newest five samples, symmetric."""
    if not trace.pattern:
        return drawn(trace.size)
    least: Matrix = slices_of(trace)[-5:].min(axis=0)
    return least


def drawn(size: int) -> Matrix:
    """Return latencies between places around five centres: distances with detours, and access links."""
    rng = np.random.default_rng(5)
    at = rng.uniform(0, 0.1, (REGIONS, 2))[rng.integers(REGIONS, size=size)] + rng.normal(0, 3e-3, (size, 2))
    access = rng.lognormal(-6.5, 0.7, size)
    apart = np.linalg.norm(at[:, None] - at[None], axis=2) * rng.lognormal(0.2, 0.25, (size, size))
    found: Matrix = np.minimum(apart, apart.T) + access[:, None] + access[None]
    np.fill_diagonal(found, 0.0)
    return found


def regions_of(latencies: Matrix, rng: random.Random) -> list[int]:
    """Return the region of each agent: that of the nearest of `REGIONS` centres that are far apart."""
    centres = [rng.randrange(len(latencies))]
    while len(centres) < REGIONS:
        centres.append(int(np.argmax(latencies[:, centres].min(axis=1))))
    for _ in range(10):
        near = latencies[:, centres].argmin(axis=1)
        inside = [np.flatnonzero(near == at) for at in range(REGIONS)]
        centres = [int(each[latencies[np.ix_(each, each)].sum(axis=1).argmin()]) for each in inside]
    return [int(each) for each in latencies[:, centres].argmin(axis=1)]


def stalls(slices: int, pairs: int, rng: np.random.Generator, *, developing: bool = False) -> Matrix:
    """Return by how much pairs are slower than usual, by slice: those of pairs of the Seattle trace."""
    if SEATTLE.is_absent:
        return _generated_stalls(slices, pairs, rng)
    known = slices_of(SEATTLE)
    chosen = known[:DEVELOPED] if developing else known[DEVELOPED:]
    one, two = np.triu_indices(known.shape[1], 1)
    series = chosen[:, one, two]
    series = series[:, np.isfinite(series).all(axis=0)]
    factors = series / np.median(series, axis=0)
    columns = rng.integers(factors.shape[1], size=pairs)
    begins = rng.integers(len(factors), size=pairs)
    rows = (np.arange(slices)[:, None] + begins) % len(factors)
    found: Matrix = factors[rows, columns]
    return found


def _generated_stalls(slices: int, pairs: int, rng: np.random.Generator) -> Matrix:
    logs = np.log(FACTORS)
    drawn_anew = np.exp(np.interp(rng.random((slices, pairs)), QUANTILES, logs))
    stays = rng.random((slices, pairs)) < STAYS
    for at in range(1, slices):
        drawn_anew[at] = np.where(stays[at], drawn_anew[at - 1], drawn_anew[at])
    return drawn_anew


def reference(per_region: int, slices: int, seed: int, *, developing: bool = False) -> WideNetwork:
    """Return PlanetLab as regions of near hosts; pairs in different regions stall as in Seattle."""
    trace = DRAWN if PLANETLAB.is_absent else PLANETLAB
    matrix = drawn(12 * per_region * REGIONS) if trace is DRAWN else read(trace)
    rng = random.Random(f"reference/{seed}")
    sound = [at for at in range(len(matrix)) if np.isfinite(matrix[at]).mean() > 0.9]
    matrix = _filled(matrix[np.ix_(sound, sound)])
    near = regions_of(matrix, rng)
    while min(near.count(region) for region in range(REGIONS)) < per_region:
        near = regions_of(matrix, rng)
    chosen = []
    for region in range(REGIONS):
        inside = [at for at, each in enumerate(near) if each == region]
        chosen += rng.sample(inside, per_region)
    usual = matrix[np.ix_(chosen, chosen)]
    regions = tuple(f"r{near[at]}" for at in chosen)
    one, two = np.triu_indices(len(chosen), 1)
    apart = np.array([regions[a] != regions[b] for a, b in zip(one, two, strict=True)])
    factors = np.ones((slices, len(one)))
    dice = np.random.default_rng(seed)
    factors[:, apart] = stalls(slices, int(apart.sum()), dice, developing=developing)
    name = f"{trace.name}, {REGIONS} regions"
    return WideNetwork(name, usual, _symmetric(usual, factors, one, two), regions)


def seattle(agents: int, slices: int, seed: int, *, developing: bool = False) -> WideNetwork:
    """Return agents of the Seattle trace; without it, places in a plane. No agent states a region."""
    rng = random.Random(f"seattle/{seed}")
    if SEATTLE.is_absent:
        usual = drawn(agents)
        one, two = np.triu_indices(agents, 1)
        factors = _generated_stalls(slices, len(one), np.random.default_rng(seed))
        return WideNetwork("drawn", usual, _symmetric(usual, factors, one, two), ("",) * agents)
    known = slices_of(SEATTLE)
    part = known[:DEVELOPED] if developing else known[DEVELOPED:]
    chosen = rng.sample(range(known.shape[1]), agents)
    delays = np.stack([_filled(each[np.ix_(chosen, chosen)]) for each in part])
    usual = np.median(delays, axis=0)
    return WideNetwork("Seattle", usual, delays[np.arange(slices) % len(part)], ("",) * agents)


def _symmetric(usual: Matrix, factors: Matrix, one: NDArray[np.intp], two: NDArray[np.intp]) -> Matrix:
    delays = np.zeros((len(factors), *usual.shape))
    delays[:, one, two] = usual[one, two] * factors
    delays[:, two, one] = delays[:, one, two]
    return delays


def _filled(matrix: Matrix) -> Matrix:
    """Return the matrix with the median of both ends where a pair was not measured."""
    found = matrix.copy()
    medians = [np.median(row[np.isfinite(row) & (row > 0)]) for row in matrix]
    for at, to in np.argwhere(~np.isfinite(matrix)):
        found[at, to] = max(medians[at], medians[to])
    return found


def constant(latencies: Sequence[Sequence[float]], regions: Sequence[str]) -> WideNetwork:
    """Return a network whose latencies never change."""
    usual = np.array(latencies, dtype=float)
    return WideNetwork("constant", usual, usual[None], tuple(regions))
