"""Live lines for a fleet, and what `elf run` says of everything written."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from typing import Any

from tests.e2e.fleet import Fleet
from tests.e2e.zygote import elf

AHEAD_S = 2.0
"""By how much lines are stamped ahead of the clock. An agent seals an interval 50 ms after its end by its
clock; on a busy machine a line may take longer from its stamp to its log, and would be late."""


def now() -> float:
    """The time to stamp a live line with."""
    return time.time() + AHEAD_S


def oracle(paths: list[Path], query: str) -> dict[int, dict[str, Any]]:
    """What `elf run` says over the files, by interval."""
    text = query.split(" AS ", 1)[1]
    done = elf("run", text, *paths, "-o", "json", "--format", "json")
    assert done.returncode == 0, done.stderr
    return by_index([json.loads(line) for line in done.stdout.splitlines()])


def by_index(results: list[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    indices = [result["interval"]["index"] for result in results]
    assert indices == sorted(set(indices)), "every interval once, in order"
    return {result["interval"]["index"]: result for result in results}


class Traffic:
    """Writes live lines to the agents' logs from a thread, and remembers them all."""

    def __init__(self, fleet: Fleet, numbers: list[int], *, every_s: float = 0.01) -> None:
        self.fleet, self.numbers, self.every_s = fleet, list(numbers), every_s
        self.written: dict[int, list[str]] = {number: [] for number in numbers}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        rng = random.Random(7)
        while not self._stop.wait(self.every_s):
            for number in list(self.numbers):
                line = json.dumps({"ts": now(), "k": rng.choice("abc"), "v": rng.randrange(100)})
                with self.fleet.log(number).open("a") as file:
                    file.write(line + "\n")
                self.written[number].append(line)


PATIENT = "HORIZON '300 s'"
"""Clause of a job whose agents all live: on a busy machine one may seem dead for a while."""

MORTAL = """CREATE JOB e2e.live AS SELECT k, count(*) AS n, sum(v) AS s FROM log
GROUP BY TUMBLE(ts, INTERVAL '1' SECOND), k ORDER BY k"""
"""Goes on soon without an agent that is dead."""

LIVE = MORTAL.replace(" AS ", f" {PATIENT} AS ", 1)


def written(traffic: Traffic, tmp_path: Path, *, without: tuple[int, ...] = ()) -> dict[int, dict[str, Any]]:
    """The oracle's answer over everything written, but for some agents."""
    paths = []
    for number, lines in traffic.written.items():
        if number not in without:
            path = tmp_path / f"written-{number}-{len(without)}.log"
            path.write_text("".join(line + "\n" for line in lines))
            paths.append(path)
    return oracle(paths, LIVE)
