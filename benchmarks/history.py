"""The last hour of a long log: `elf query --from --to` on a real agent, without a time index and with one.

The log has twenty hours. Each query is a whole command, with the start of its process. The peer is the same
query on an agent whose log has that hour only; the rows must be equal. The first query of an agent reads the
log and makes the index; the agent is then restarted, so that the index comes from the disk.
"""

from __future__ import annotations

import datetime
import hashlib
import subprocess
import tempfile
import time
from pathlib import Path

from benchmarks import logs
from benchmarks.agent import started
from benchmarks.harness import Figure
from benchmarks.whole_runs import ELF

LINES = {False: 5_000_000, True: 20_000}
HOURS = 20
QUERY = "SELECT product, count(*) AS n, sum(price) AS turnover FROM log GROUP BY product ORDER BY product"
REPEATS = {False: 5, True: 1}
FIRST, INDEXED, HOUR = "last hour, without an index", "last hour, with an index", "a log of that hour only"
TIMEOUT_S = 600.0


def last_hour(*, small: bool) -> list[Figure]:
    """Seconds of a query over the last hour; the ratio is to the log of that hour."""
    lines = LINES[small]
    spacing_us = HOURS * 3_600_000_000 // lines
    log = logs.ndjson(lines, spacing_us)
    begin_s = logs.BEGIN_S + (HOURS - 1) * 3600
    query = [*ELF, "query", QUERY, "-o", "json"]
    for option, at in (("--from", begin_s), ("--to", begin_s + 3600)):
        query += [option, datetime.datetime.fromtimestamp(at, datetime.UTC).isoformat()]
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory)
        hour = root / "hour"
        _cut(log, begin_s, hour)
        found = dict[str, tuple[list[float], str]]()
        with started(hour, root / "of the hour") as api:
            found[HOUR] = _asked(query, api, REPEATS[small])
        with started(log, root / "whole") as api:
            found[FIRST] = _asked(query, api, 1)
        with started(log, root / "whole") as api:
            found[INDEXED] = _asked(query, api, REPEATS[small])
    if len({rows for _, rows in found.values()}) > 1:
        raise RuntimeError(f"different rows: {found}")
    best = {name: min(seconds) for name, (seconds, _) in found.items()}
    return [
        Figure(
            name,
            best[name],
            "s",
            peer="" if name == HOUR else HOUR,
            ratio=0.0 if name == HOUR else best[name] / best[HOUR],
            checksum=rows,
            spread=(max(seconds) - min(seconds)) / best[name],
        )
        for name, (seconds, rows) in found.items()
    ]


def _asked(query: list[str], api: str, repeats: int) -> tuple[list[float], str]:
    seconds, rows = [], set[str]()
    for _ in range(repeats):
        began = time.monotonic()
        done = subprocess.run([*query, "--api", api], capture_output=True, check=True, timeout=TIMEOUT_S)
        seconds.append(time.monotonic() - began)
        answer = done.stdout.partition(b'"rows":')[2].partition(b"]")[0]
        rows.add(hashlib.blake2b(answer, digest_size=8).hexdigest())
    if len(rows) > 1:
        raise RuntimeError("one query has several answers")
    return seconds, rows.pop()


def _cut(log: Path, begin_s: int, into: Path) -> None:
    """Write the lines from a time on; the times of a log ascend."""
    begin = datetime.datetime.fromtimestamp(begin_s, datetime.UTC).strftime('{"ts":"%Y-%m-%dT%H').encode()
    with log.open("rb") as file, into.open("wb") as hour:
        file.seek(max(0, log.stat().st_size // HOURS * (HOURS - 2)))
        file.readline()
        hour.writelines(line for line in file if line.startswith(begin))


PARTS = {"last hour": last_hour}
