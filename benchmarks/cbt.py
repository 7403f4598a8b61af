"""The buffer tree against everything else that groups: speed, memory, spill, kernels, and ELF's Figure 11.

Parts: `hot` and `wide` (count only; count, sum, min and max), `unique` (50 million keys), `spill` (state of
four times the budget), `kernel` (native against its numpy twin), `ladder` (throughput and memory over the
number of unique keys: the plots).
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks import contest, data
from benchmarks.contest import Contestant, Outcome, Skipped
from benchmarks.harness import Figure
from benchmarks.peers import groupby_cpp

OURS = "elfmesh"

INCREMENTAL = ("pyarrow", "polars lazy", "polars", "duckdb upsert", "duckdb periodic", "dict")
"""What the tree is measured against where "the best incremental" is meant; DuckDB's one shot is not."""

HOT = {False: (20_000_000, 200_000), True: (300_000, 10_000)}
WIDE = {False: (30_000_000, 10_000_000), True: (300_000, 100_000)}
UNIQUE = {False: 50_500_000, True: 400_000}
"""Half a million more than 50: that many of the short random keys are equal."""

LADDER = {False: (1e4, 3e4, 1e5, 3e5, 1e6, 3e6, 1e7), True: (1e5,)}
LADDER_TUPLES = {False: 20_000_000, True: 200_000}
LADDER_PEERS = ("dict", "pyarrow", "sparsehash", "absl")
SMALL_PEERS = {"hot": LADDER_PEERS, "wide": ("pyarrow",)}
REPEATS = 3
PEERS_VARIABLE = "ELF_BENCH_PEERS"
"""Names of the contestants of `hot` and `wide` besides ours, with commas; all if it is not set."""


def contestants(stream: Path, aggregates: str) -> dict[str, Contestant]:
    """All that can group a key stream, by name."""

    def one(name: str, module: str, variant: str = "-", needs: str = "") -> Contestant:
        arguments = (variant, str(stream), aggregates)
        return Contestant(name, f"benchmarks.peers.groupby_{module}", arguments, needs)

    def cpp(name: str) -> Contestant:
        plain = one(name, "cpp", name)
        return Contestant(name, plain.module, plain.arguments, check=lambda: _built(name, aggregates))

    every = [
        one(OURS, "elf", "tree"),
        one("pyarrow", "pyarrow"),
        one("polars lazy", "polars", "lazy", "polars"),
        one("polars", "polars", "eager", "polars"),
        one("duckdb upsert", "duckdb", "upsert", "duckdb"),
        one("duckdb periodic", "duckdb", "periodic", "duckdb"),
        one("duckdb one shot", "duckdb", "oneshot", "duckdb"),
        one("pandas", "pandas", "-", "pandas"),
        one("dict", "python", "dict"),
        *([one("Counter", "python", "counter")] if aggregates == "count" else []),
        *(cpp(name) for name in groupby_cpp.MAPS),
    ]
    return {contestant.name: contestant for contestant in every}


def _built(name: str, aggregates: str) -> None:
    try:
        groupby_cpp.build(name, aggregates)
    except groupby_cpp.CannotBuild as reason:
        raise Skipped(str(reason)) from None


def hot(*, small: bool) -> list[Figure]:
    """Few keys that stay in the root."""
    return _shootout("hot", data.hot(*HOT[small]), small)


def wide(*, small: bool) -> list[Figure]:
    """More keys than any cache."""
    return _shootout("wide", data.wide(*WIDE[small]), small)


def _shootout(work: str, stream: Path, small: bool) -> list[Figure]:
    figures = []
    for aggregates in ("count", "four"):
        every = contestants(stream, aggregates)
        peers = os.environ.get(PEERS_VARIABLE, "").split(",")
        if small:
            peers = list(SMALL_PEERS[work])
        if any(peers):
            every = {name: one for name, one in every.items() if name in {OURS, *peers}}
        outcomes = contest.run(list(every.values()), repeats=1 if small else REPEATS)
        figures += _compare(f"{work}, {aggregates}", outcomes)
    return figures


def _compare(what: str, outcomes: Mapping[str, Outcome]) -> list[Figure]:
    """Rate and bytes per key of each, as ratios to ours."""
    ours = outcomes[OURS]
    figures = [_rate(what, ours), _per_key(what, ours), _result(what, ours), *_stated(what, ours)]
    for name, peer in outcomes.items():
        if peer.skipped:
            figures.append(peer.figure(what))
        elif name != OURS:
            speed, memory = _rate(what, peer), _per_key(what, peer)
            speed.peer = memory.peer = name
            speed.ratio = _mega_rate(ours) / speed.value
            memory.ratio = _bytes_per_key(ours) / memory.value
            figures += [speed, memory]
    rates = {n: _mega_rate(o) for n, o in outcomes.items() if n in INCREMENTAL and not o.skipped}
    if rates:
        best = max(rates, key=lambda name: rates[name])
        ratio = _mega_rate(ours) / rates[best]
        figures.append(Figure(f"{what}: ours to the best incremental", ratio, "x", best, ratio))
    return figures


def _mega_rate(outcome: Outcome) -> float:
    return outcome.median("rows") / outcome.median("cpu_s") / 1e6


def _bytes_per_key(outcome: Outcome) -> float:
    """What is held after the last insert; of a one-shot query its peak."""
    held = outcome.median("held_bytes") or outcome.median("peak_bytes")
    return max(held, 1) / outcome.median("keys")


def _rate(what: str, outcome: Outcome) -> Figure:
    return _checked(f"{what}: {outcome.name}, insert", _mega_rate(outcome), "M tuples/s", outcome, "cpu_s")


def _per_key(what: str, outcome: Outcome) -> Figure:
    name = f"{what}: {outcome.name}, memory"
    return _checked(name, _bytes_per_key(outcome), "bytes/key", outcome, "held_bytes")


def _checked(name: str, value: float, unit: str, outcome: Outcome, spread_of: str) -> Figure:
    return Figure(name, value, unit, checksum=outcome.checksum, spread=outcome.spread(spread_of))


def _result(what: str, outcome: Outcome) -> Figure:
    return Figure(f"{what}: {outcome.name}, flush to a table", outcome.median("result_s"), "CPU s")


def _stated(what: str, outcome: Outcome) -> list[Figure]:
    held = outcome.median("held_bytes")
    if not held:
        return []
    settled = outcome.median("settled_bytes")
    per_key = max(settled, 1) / outcome.median("keys")
    return [
        Figure(f"{what}: {outcome.name}, memory without free pages", per_key, "bytes/key"),
        Figure(f"{what}: nbytes to that", outcome.median("stated_bytes") / max(settled, 1), "x"),
    ]


def unique(*, small: bool) -> list[Figure]:
    """Fifty million keys: inside 600 MB, and how much slower than ten million."""
    ten = data.wide(*WIDE[small])
    streams = {"unique": data.unique(UNIQUE[small]), "wide": ten}
    done = {name: contest.run([contestants(path, "count")[OURS]])[OURS] for name, path in streams.items()}
    largest, rate = done["unique"], _rate("unique keys", done["unique"])
    rate.peer, rate.ratio = "ours, wide", rate.value / _mega_rate(done["wide"])
    return [
        Figure("unique keys", largest.median("keys"), "keys", checksum=largest.checksum),
        rate,
        Figure("unique keys: memory after the last insert", largest.median("held_bytes") / 1e6, "MB"),
        Figure("unique keys: peak memory while inserting", largest.median("peak_bytes") / 1e6, "MB"),
        Figure("unique keys: flush to a table", largest.median("result_s"), "CPU s"),
    ]


def spill(*, small: bool) -> list[Figure]:
    """A budget of a quarter of the state: the rest lies in a file."""
    if importlib.util.find_spec("elfmesh.cbt.budget") is None:
        return [Figure("spill", 0, "", skipped="this version of elfmesh cannot spill")]
    stream = data.wide(*WIDE[small])
    plain = contestants(stream, "count")[OURS]
    inside = contest.run([plain])[OURS]
    limit = int(inside.median("stated_bytes")) // 4
    spilling = Contestant("spilling", plain.module, (f"spill:{limit}", *plain.arguments[1:]))
    outcomes = contest.run([plain, spilling], repeats=1 if small else REPEATS)
    inside, outside = outcomes[OURS], outcomes["spilling"]
    ratio = _mega_rate(outside) / _mega_rate(inside)
    wall = inside.median("wall_s") / outside.median("wall_s")
    return [
        Figure("spill: budget", limit / 1e6, "MB", checksum=outside.checksum),
        Figure("spill: insert", _mega_rate(outside), "M tuples/s", "in memory", ratio, outside.checksum),
        Figure("spill: insert by the wall clock", wall, "x", "in memory", wall),
        Figure("spill: memory after the last insert", outside.median("held_bytes") / 1e6, "MB"),
        Figure("spill: peak memory while inserting", outside.median("peak_bytes") / 1e6, "MB"),
    ]


def kernel(*, small: bool) -> list[Figure]:
    """The native kernel against its numpy twin, which is the fallback where nothing can be compiled."""
    if importlib.util.find_spec("elfmesh.cbt.kernel.native") is None:
        return [Figure("kernel", 0, "", skipped="this version of elfmesh has no native kernel")]
    figures = []
    sizes: tuple[tuple[str, Callable[..., Path], tuple[int, int]], ...] = (
        ("hot", data.hot, HOT[small]),
        ("wide", data.wide, WIDE[small]),
    )
    for work, make, (tuples, keys) in sizes:
        plain = contestants(make(tuples // 4, keys // 4), "four")[OURS]
        pair = [
            Contestant(name, plain.module, plain.arguments, env={"ELF_KERNEL": name})
            for name in ("native", "numpy")
        ]
        outcomes = contest.run(pair)
        native, twin = (_rate(f"kernel, {work}", outcomes[name]) for name in ("native", "numpy"))
        native.peer, native.ratio = "numpy twin", native.value / twin.value
        figures += [native, twin]
    return figures


def ladder(*, small: bool) -> list[Figure]:
    """ELF's Figure 11: throughput and memory over the number of unique keys."""
    figures = []
    for keys in LADDER[small]:
        every = contestants(data.wide(LADDER_TUPLES[small], int(keys)), "count")
        outcomes = contest.run([every[name] for name in (OURS, *LADDER_PEERS)])
        for outcome in outcomes.values():
            what = f"ladder, {int(keys)}"
            if outcome.skipped:
                figures.append(outcome.figure(what))
                continue
            rate, memory = _rate(what, outcome), _per_key(what, outcome)
            memory.value, memory.unit = max(outcome.median("held_bytes"), 1) / 1e6, "MB"
            figures += [rate, memory]
    return figures


PARTS = {"hot": hot, "wide": wide, "unique": unique, "spill": spill, "kernel": kernel, "ladder": ladder}
