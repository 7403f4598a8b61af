"""Strategies of coordination: what an order costs and a seal does not (Blazes VIII), and the analyser.

Parts: `words` is Fig. 8, `ads` Figs. 9 and 10, `seals` Fig. 11, `answers` the check of VIII-B1: simulated by
a model in virtual time (`benchmarks.strategies`). `early` and `partitions` run real agents
(`benchmarks.coordination_agents`), as do `words-agents`, `topics` and `servers`, the ad network
(`benchmarks.coordination_words`, `coordination_topics`, `coordination_servers`), `sealed` the engine of an
agent, `analysis` the analyser. The peers are the uncoordinated run, and the same query without SEALED.
Strategies with the label Async have equal checksums and equal answers of all replicas; otherwise the run
fails.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks import strategies
from benchmarks.coordination_agents import CLICKS, PARTITIONS, early, partitions
from benchmarks.coordination_servers import servers as agents
from benchmarks.coordination_topics import topics
from benchmarks.coordination_words import words as words_at_agents
from benchmarks.harness import Figure, checked
from benchmarks.strategies import (
    COMMITS,
    INDEPENDENT,
    ORDERED,
    PER_MESSAGE,
    SEALED,
    UNCOORDINATED,
    Ran,
    throughput,
)
from elfmesh.control.coordination.analysis import analyse
from elfmesh.control.coordination.cost import ORDERED as ORDER
from elfmesh.control.coordination.cost import SEAL_KEY, Circumstances, expected_s
from elfmesh.control.coordination.derivation import Analysis
from elfmesh.control.coordination.statements import dataflow
from elfmesh.control.jobs.graph import job_graph
from elfmesh.local.embedded import LogRun
from elfmesh.ql import parse
from elfmesh.units import MICROS

REPEATS = 5
SEEDS = {False: 20, True: 3}
SERVERS = {False: (5, 10, 20), True: (5, 10)}
WORKERS = {False: (5, 10, 15, 20), True: (5,)}
STRETCH_S = {False: strategies.STRETCH_S, True: 1.0}
APART_S = 0.005
"""Releases that are closer are one step of the curve."""


def words(*, small: bool) -> list[Figure]:
    """Fig. 8: words per second in the steady state, by strategy and number of workers."""
    figures = []
    for workers in WORKERS[small]:
        found: dict[str, tuple[float, str]] = {}
        for strategy in (UNCOORDINATED, SEALED, COMMITS, PER_MESSAGE):
            runs = [throughput(strategy, workers, seed, STRETCH_S[small]) for seed in range(REPEATS)]
            found[strategy] = statistics.median(each for each, _ in runs), str([each for _, each in runs])
        base, checksum = found[UNCOORDINATED]
        checked(len({each for _, each in found.values()}) == 1, "strategies have counted other words")
        for strategy, (value, _) in found.items():
            peer = "" if strategy == UNCOORDINATED else UNCOORDINATED
            name = f"Fig. 8 simulated, {workers} workers, {strategy}"
            digest = hashlib.blake2b(checksum.encode(), digest_size=8).hexdigest()
            figures.append(Figure(name, value, "words/s", peer, base / value if peer else 0.0, digest))
    return figures


def ran(strategy: str, servers: int, small: bool) -> list[Ran]:
    """Runs of the ad network by five seeds; without an anomaly where the label allows none."""
    runs = [strategies.run(strategy, servers, seed) for seed in range(2 if small else REPEATS)]
    for each in runs:
        checked(strategy == UNCOORDINATED or each.differing == 0, f"{strategy}: replicas have differed")
        checked(len(each.processed) == servers * strategies.ENTRIES, f"{strategy}: clicks are missing")
    return runs


def ads(*, small: bool) -> list[Figure]:
    """Figs. 9 and 10: the time until the last of 1,000 clicks of each server is processed."""
    figures = []
    for servers in SERVERS[small]:
        checksums = set()
        base = 0.0
        for strategy in (UNCOORDINATED, INDEPENDENT, SEALED, ORDERED, PER_MESSAGE):
            runs = ran(strategy, servers, small)
            checksums |= {each.checksum() for each in runs}
            value = statistics.median(max(each.processed) for each in runs)
            base = base or value
            peer = "" if strategy == UNCOORDINATED else UNCOORDINATED
            name = f"Figs. 9, 10 simulated, {servers} servers, {strategy}: until the last click"
            figures.append(Figure(name, value, "s", peer, value / base if peer else 0.0, runs[0].checksum()))
        checked(len(checksums) == 1, "strategies have counted other clicks")
    return figures


def seals(*, small: bool) -> list[Figure]:
    """Fig. 11: from a seal to its answer with one producer of a campaign and with ten, and the steps."""
    figures = []
    servers = SERVERS[small][1]
    medians = {}
    for strategy in (INDEPENDENT, SEALED):
        runs = ran(strategy, servers, small)
        medians[strategy] = statistics.median(statistics.median(each.seals) for each in runs)
        steps = statistics.median(_steps(each.releases) / strategies.CAMPAIGNS * 10 for each in runs)
        name = f"Fig. 11 simulated, {servers} servers, {strategy}"
        figures += [
            Figure(f"{name}: release times for 10 campaigns", steps, "steps"),
            Figure(f"{name}: seal to answer, median", medians[strategy] * 1e3, "ms"),
        ]
    figures[-1].peer, figures[-1].ratio = INDEPENDENT, medians[SEALED] / medians[INDEPENDENT]
    return [*figures, *_predicted(servers, small)]


def _predicted(servers: int, small: bool) -> list[Figure]:
    """Compare the median from the last seal to the answer, and of an order, with what `elf blazes` predicts.

    The barrier of the model is a hop, and the service of the messages that a server sends together.
    """
    hop_s = strategies.LINK_S * 1.25
    barrier_s = hop_s + strategies.BURST * strategies.SERVICE_S
    at = Circumstances(every_s=0.0, barrier_s=barrier_s, hop_s=hop_s, sync_s=strategies.SYNC_S)
    figures = []
    for strategy, kind in ((INDEPENDENT, SEAL_KEY), (SEALED, SEAL_KEY), (ORDERED, ORDER)):
        runs = ran(strategy, servers, small)
        delays = [each.delivery if strategy == ORDERED else each.last_seals for each in runs]
        value, predicted = statistics.median(map(statistics.median, delays)), expected_s(kind, at)
        name = f"simulated, {servers} servers, {strategy}: added latency, median"
        peer = f"predicted {predicted * 1e3:.2f} ms"
        figures.append(Figure(name, value * 1e3, "ms", peer, value / predicted))
    return figures


def _steps(releases: list[float]) -> int:
    ordered = sorted(releases)
    return 1 + sum(later - earlier > APART_S for earlier, later in pairwise(ordered))


def answers(*, small: bool) -> list[Figure]:
    """VIII-B1: seeds in which replicas answered a request differently, and requests that they did."""
    figures = []
    count = SEEDS[small]
    for strategy in (UNCOORDINATED, INDEPENDENT, SEALED, ORDERED):
        runs = [strategies.run(strategy, 5, seed) for seed in range(count)]
        equal = sum(each.differing == 0 for each in runs)
        if strategy == UNCOORDINATED:
            differing = sum(each.differing for each in runs)
            name = f"VIII-B1 simulated, {strategy}: requests answered differently in {count} seeds"
            figures.append(Figure(name, differing, "requests"))
            figures.append(Figure(f"{name.partition(':')[0]}: seeds with such", count - equal, "seeds"))
        else:
            checked(equal == count, f"{strategy}: replicas have differed")
            figures.append(Figure(f"VIII-B1 simulated, {strategy}: seeds without any", equal, "seeds"))
    return figures


# -- real: partitions in the engine, the analyser

TUMBLED = (
    "SELECT campaign, count(*) AS n FROM log WHERE event = 'click' "
    "GROUP BY TUMBLE(ts, INTERVAL '1' DAY), campaign ORDER BY campaign"
)
BY_SEALS = (
    "CREATE JOB bench.sealed EVERY '1 d' AS SELECT campaign, count(*) AS n FROM log GROUP BY "
    "SEALED(campaign WHEN event = 'end' PRODUCERS ONE AFTER '48 h'), campaign ORDER BY campaign"
)


def sealed(*, small: bool) -> list[Figure]:
    """CPU seconds of partitions that end by a record, and of the same groups in a window, in one process."""
    with tempfile.TemporaryDirectory() as directory:
        log = Path(directory, "log")
        log.write_bytes(_campaigns(PARTITIONS[small]))
        used: dict[str, list[float]] = {TUMBLED: [], BY_SEALS: []}
        rows = dict[str, str]()
        for _ in range(3):
            for text, times in used.items():
                began = time.process_time()
                tables = [each.table for each in LogRun(parse(text), [str(log)], threads=1).results()]
                times.append(time.process_time() - began)
                shown = sorted((row["campaign"], row["n"]) for each in tables for row in each.to_pylist())
                checked(len(shown) == PARTITIONS[small], "a partition is missing")
                rows[text] = hashlib.blake2b(repr(shown).encode(), digest_size=8).hexdigest()
    checked(rows[TUMBLED] == rows[BY_SEALS], "partitions and windows have counted other clicks")
    base, value = (statistics.median(used[text]) for text in (TUMBLED, BY_SEALS))
    name = f"SEALED, {PARTITIONS[small]:,} partitions of {CLICKS} records: CPU"
    return [Figure(name, value, "s", "TUMBLE", value / base, rows[BY_SEALS])]


def _campaigns(count: int) -> bytes:
    """A day of campaigns, each with its clicks and then its end."""
    step_us = 86_400 * MICROS // (count * (CLICKS + 1))
    at_us = 20_000 * 86_400 * MICROS
    lines = []
    for campaign in range(count):
        for number in range(CLICKS + 1):
            event = "end" if number == CLICKS else "click"
            lines.append(json.dumps({"ts": at_us / MICROS, "campaign": f"c{campaign}", "event": event}))
            at_us += step_us
    return "\n".join(lines).encode() + b"\n"


JOBS = {False: 1_000, True: 50}


def analysis(*, small: bool) -> list[Figure]:
    """CPU seconds of the labels of many jobs, without parsing, and of one statement beside its parsing."""
    texts = [_job(number) for number in range(JOBS[small])]
    parsed = [parse(text) for text in texts]

    def labels(count: int) -> Analysis:
        return analyse(dataflow(job_graph(parsed[:count])))

    total = statistics.median(_used(lambda: labels(len(parsed))) for _ in range(REPEATS))
    one = statistics.median(_used(lambda: labels(1)) for _ in range(REPEATS))
    fresh = [f"{texts[0]} " + " " * at for at in range(REPEATS)]  # a text that was parsed is remembered
    parsing = statistics.median(_used(partial(parse, text)) for text in fresh)
    graph = labels(len(parsed)).graph
    checked(len(analyse(graph).outputs) >= JOBS[small], "an output has no label")
    return [
        Figure(f"analysis of {JOBS[small]:,} jobs and {len(graph.streams):,} streams, CPU", total, "s"),
        Figure("analysis of one statement, CPU", one * 1e3, "ms", "parsing", one / parsing),
    ]


def _job(number: int) -> str:
    """A job that reads the one before, in chains of ten."""
    source = f"a.j{number - 1}" if number % 10 else "log"
    return (
        f"CREATE JOB a.j{number} EVERY '1 s' AS SELECT u, count(*) AS n FROM {source} GROUP BY u ORDER BY n "
        "DESC LIMIT 10"
    )


def _used(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


PARTS = {
    "words": words,
    "words-agents": words_at_agents,
    "ads": ads,
    "seals": seals,
    "answers": answers,
    "early": early,
    "sealed": sealed,
    "partitions": partitions,
    "topics": topics,
    "servers": agents,
    "analysis": analysis,
}
