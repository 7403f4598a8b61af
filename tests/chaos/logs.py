"""Web servers that write: a log per agent, a record id on each line, rotated by rename every few seconds."""

from __future__ import annotations

import json
import random
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

NAME = "log.log"
KEYS = "abcdefgh"


class Servers:
    """Writes to all logs from a thread, whatever happens to their agents.

    Args:
        directories: of each agent, by its name.
        rate: lines per second of each server, on average.
        rotate_s: seconds between rotations, on average.
        seed: of values and pauses.
    """

    def __init__(self, directories: dict[str, Path], *, rate: float, rotate_s: float, seed: int) -> None:
        self._rng = random.Random(seed)
        self._directories, self._rate, self._rotate_s = directories, rate, rotate_s
        self._written = dict.fromkeys(directories, 0)
        self._rotations = dict.fromkeys(directories, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="servers", daemon=True)
        for directory in directories.values():
            (directory / NAME).touch()

    @property
    def written(self) -> int:
        """Lines so far."""
        return sum(self._written.values())

    @property
    def rotations(self) -> int:
        """Rotations so far."""
        return sum(self._rotations.values())

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self) -> None:
        """Write no more."""
        self._stop.set()
        if self._thread.ident is not None:  # it was started
            self._thread.join()

    def _run(self) -> None:
        due = dict.fromkeys(self._directories, 0.0)
        rotate = {name: time.monotonic() + self._pause(self._rotate_s) for name in self._directories}
        while not self._stop.wait(0.01):
            now = time.monotonic()
            for name, directory in self._directories.items():
                if now >= rotate[name]:
                    rotate[name] = now + self._pause(self._rotate_s)
                    self._rotate(name, directory)
                if now >= due[name]:
                    due[name] = now + self._pause(3 / self._rate)
                    self._write(name, directory, self._rng.randrange(1, 6))

    def _pause(self, mean_s: float) -> float:
        return mean_s * self._rng.uniform(0.5, 1.5)

    def _rotate(self, name: str, directory: Path) -> None:
        self._rotations[name] += 1
        path = directory / NAME
        path.rename(path.with_name(f"{NAME}.{self._rotations[name]}"))
        if self._rng.random() < 0.8:  # else no process makes the new one before the next line does
            path.touch()

    def _write(self, name: str, directory: Path, count: int) -> None:
        with (directory / NAME).open("a") as file:
            for _ in range(count):
                self._written[name] += 1
                file.write(record(f"{name}-{self._written[name]:07d}", self._rng) + "\n")


def record(name: str, rng: random.Random) -> str:
    """One line; its time is now."""
    us = time.time_ns() // 1000
    seconds = datetime.fromtimestamp(us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    ts = f"{seconds}.{us % 1_000_000:06d}Z"
    return json.dumps({"ts": ts, "id": name, "k": rng.choice(KEYS), "v": rng.randrange(-1000, 1000)})


def read_raw(directory: Path) -> list[tuple[int, str, str, int]]:
    """Every record of a server, rotated files included: microseconds, id, key, value."""
    found = []
    for path in sorted(directory.glob(f"{NAME}*")):
        for line in path.read_text().splitlines():
            fields = json.loads(line)
            moment = datetime.strptime(fields["ts"], "%Y-%m-%dT%H:%M:%S.%f%z")
            us = int(moment.replace(microsecond=0).timestamp()) * 1_000_000 + moment.microsecond
            found.append((us, fields["id"], fields["k"], fields["v"]))
    return found
