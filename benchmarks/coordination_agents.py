"""Coordination at real agents: when early rows reach a reader, and what partitions cost that records end."""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from benchmarks.fleet import START_US, ProbedFleet, canonical, latest, until
from benchmarks.harness import Figure, checked, percentile
from elfmesh.api.client.client import Client, connect
from elfmesh.cli.demo.fleet import Fleet
from elfmesh.units import MICROS

AGENTS = {False: 8, True: 2}
PERIODS_MS = {False: (100, 1_000), True: (100,)}
RATE_PER_S = 50.0
CROSSING = 20
WINDOW_S = {False: 60, True: 10}
THRESH = (
    "CREATE JOB bench.thresh EARLY '{period} ms' LATENESS '200 ms' AS SELECT product, count(*) AS n "
    "FROM clicks GROUP BY TUMBLE(ts, INTERVAL '{window}' SECOND), product HAVING count(*) >= {crossing}"
)


def early(*, small: bool) -> list[Figure]:
    """From the time of the record that crosses the threshold to the reader of the early row."""
    figures = []
    for period_ms in PERIODS_MS[small]:
        with tempfile.TemporaryDirectory() as directory:
            found = _early(Path(directory), period_ms, AGENTS[small], WINDOW_S[small], small)
        for name, share in (("median", 0.5), ("p99", 0.99)):
            value = percentile(found, share) * 1e3
            shown = f"early row, period {period_ms} ms, {AGENTS[small]} agents: crossing to reader, {name}"
            figures.append(Figure(shown, value, "ms", "period", value / period_ms))
    return figures


def _early(directory: Path, period_ms: int, count: int, window_s: int, small: bool) -> list[float]:
    """Return how long after the crossing each early row arrived; each is in the record of its window."""
    with Fleet(directory, count, seed=1, rate_per_s=RATE_PER_S) as fleet:
        fleet.open()
        api = fleet.agents[-1].api
        end = time.monotonic() + 30
        while len(connect(api).get("agents")) < count and time.monotonic() < end:
            time.sleep(0.2)
        fleet.traffic.start()
        connect(api).apply(THRESH.format(period=period_ms, window=window_s, crossing=CROSSING))
        arrived, final = _read(connect(api), 2 if small else 4)
        fleet.traffic.stop()
        crossings = _crossings(fleet.traffic.paths.values(), window_s)
    late = []
    for (start, product), at in arrived.items():
        if start in final:
            checked(product in final[start], f"{product} was early and is not final")
            late.append(at - crossings[start, product])
    checked(bool(late), "no early row of a window that was closed")
    return late


def _read(client: Client, windows: int) -> tuple[dict[tuple[float, str], float], dict[float, set[str]]]:
    """Return when early rows arrived and the final rows, until so many windows after the first are closed."""
    arrived: dict[tuple[float, str], float] = {}
    final: dict[float, set[str]] = {}
    first = True
    for line in client.results("bench/thresh", follow=True, state="early"):
        start = _seconds(line["interval"]["start"])
        products = {row["product"] for row in line["rows"]}
        if line["state"] == "EARLY":
            for product in products:
                arrived.setdefault((start, product), time.time())
        elif first:  # it began before the job
            first = False
            arrived = {key: at for key, at in arrived.items() if key[0] > start}
        else:
            final[start] = products
            if len(final) == windows:
                break
    return arrived, final


def _crossings(paths: Iterable[Path], window_s: int) -> dict[tuple[float, str], float]:
    """Return when each product had so many clicks in a window that its row became one."""
    times: dict[tuple[float, str], list[float]] = {}
    for path in paths:
        for line in path.read_bytes().splitlines():
            record = json.loads(line)
            at = _seconds(record["ts"])
            times.setdefault((at // window_s * window_s, record["product"]), []).append(at)
    return {key: sorted(each)[CROSSING - 1] for key, each in times.items() if len(each) >= CROSSING}


def _seconds(value: str | float) -> float:
    return value / MICROS if isinstance(value, int | float) else datetime.fromisoformat(value).timestamp()


PARTITIONS = {False: 10_000, True: 200}
CLICKS = 20
JOB_TEXTS = {
    "TUMBLE": (
        "CREATE JOB bench.ads AS SELECT campaign, count(*) AS n FROM ads WHERE event = 'click' "
        "GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), campaign"
    ),
    "SEALED": (
        "CREATE JOB bench.ads EVERY '1 s' AS SELECT campaign, count(*) AS n FROM ads "
        "GROUP BY SEALED(campaign WHEN event = 'end' PRODUCERS ONE AFTER '1 h'), campaign"
    ),
}
SECONDS = {False: 30, True: 4}
STREAM = "ads"


def partitions(*, small: bool) -> list[Figure]:
    """CPU seconds of all agents for partitions that end by a record, and for the same groups in windows."""
    used: dict[str, float] = {}
    totals: dict[str, str] = {}
    count = AGENTS[small]
    for name, text in JOB_TEXTS.items():
        with (
            tempfile.TemporaryDirectory() as directory,
            ProbedFleet(Path(directory), count, beside=STREAM, probe_s="1") as fleet,
        ):
            for number, path in enumerate(fleet.beside.values()):
                path.write_bytes(_spread(number, PARTITIONS[small] // count, SECONDS[small]))
            client = fleet.begin()
            before = fleet.cpu_s()
            client.apply(text)
            last = START_US // MICROS + SECONDS[small] - 1
            until(partial(_has, client, last), "the last interval", 300.0)
            used[name] = fleet.cpu_s() - before
            found: Counter[str] = Counter()
            for line in client.results("bench/ads"):
                for row in line["rows"]:
                    found[row["campaign"]] += row["n"]
        totals[name] = hashlib.blake2b(canonical(found).encode(), digest_size=8).hexdigest()
    checked(totals["SEALED"] == totals["TUMBLE"], "partitions and windows have counted other clicks")
    name = f"SEALED, {PARTITIONS[small]:,} partitions of {CLICKS} records, {count} agents: CPU"
    return [Figure(name, used["SEALED"], "s", "TUMBLE", used["SEALED"] / used["TUMBLE"], totals["SEALED"])]


def _has(client: Client, index: int) -> bool:
    return (latest(client).get("bench/ads") or 0) >= index


def _spread(agent: int, count: int, seconds: int) -> bytes:
    """Return the campaigns of one agent over some seconds, and one line behind them that ends the windows."""
    step_us = seconds * MICROS // (count * (CLICKS + 1) + 1)
    lines = [
        {"ts": stamp, "campaign": f"a{agent}c{number // (CLICKS + 1)}", "event": event}
        for number in range(count * (CLICKS + 1))
        for event in ("end" if number % (CLICKS + 1) == CLICKS else "click",)
        for stamp in (_stamp(START_US + number * step_us),)
    ]
    lines.append({"ts": _stamp(START_US + (seconds + 5) * MICROS), "campaign": "none", "event": "other"})
    return "".join(json.dumps(each) + "\n" for each in lines).encode()


def _stamp(us: int) -> str:
    return datetime.fromtimestamp(us / MICROS, UTC).isoformat()
