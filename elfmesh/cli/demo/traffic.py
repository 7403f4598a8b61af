"""Generates the click stream of a web shop, for trying elfmesh without real logs.

The module owns the shop (products in directories with Zipf popularity, users with locations) and its log
lines: NDJSON in the shape of the paper's, that is, clicks, likes and buys with product, directory, counts and
user. It does not know agents or queries.

Invariants: line i of agent a under seed s has the same content however many lines a caller requests at a
time; only its timestamp comes from the caller. All agents of a seed share one shop. Each write consists of
whole lines. The classes do not read the clock; the command at the end passes the current time.

Paper: ELF 1 (Figure 1, the user activity log) and 2.1 (Figure 4).
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import IO

import click
import numpy as np
import numpy.typing as npt

from elfmesh.errors import StorageError
from elfmesh.units import MICROS

DIRECTORIES = ("Video Games", "Books", "Music", "Toys", "Kitchen", "Garden", "Outdoor")
_DIRECTORY_SHARES = (0.4, 0.2, 0.1, 0.1, 0.08, 0.07, 0.05)
LOCATIONS = ("Ohio", "Georgia", "California", "Texas", "Oregon", "Maine", "Berlin", "Lyon", "Osaka", "test")
"""Locations of users; "test" marks the shop's own probes, which a query excludes."""
_LOCATION_SHARES = (0.2, 0.16, 0.16, 0.14, 0.1, 0.08, 0.06, 0.05, 0.03, 0.02)

_FIRST = (
    "Angry Clever Cosmic Crazy Golden Happy Hidden Little Lost Lucky "
    "Magic Mighty Pocket Royal Secret Silent Super Tiny Turbo Wild"
)
_SECOND = (
    "Birds Castle Chef City Dragons Farm Foxes Garden Heroes Islands "
    "Kart Knights Legends Ninjas Planets Puzzles Quest Racers Robots Worlds"
)
_NAMES = "Curry Ada Bo Chen Dina Emil Fay Gus Hana Ivo Jo Kim Lea Max"

_ACTIONS = (("click", 1, 0, 0), ("click", 2, 0, 0), ("click", 3, 0, 0), ("like", 0, 1, 0), ("buy", 0, 0, 1))
_ACTION_SHARES = (0.70, 0.12, 0.03, 0.10, 0.05)

BLOCK = 4096
"""Number of lines drawn at a time, so that their content does not depend on how many lines a caller requests.
"""

STAMP_SPREAD_US = 20_000
"""Lines that are written together get timestamps from at most this long ago, like those of a real server."""

Times = npt.NDArray[np.int64]


class ShopTraffic:
    """Generator of the log lines of one agent's web server.

    Args:
        agent: number of the web server. Each has its own sequence of visitors; all share one shop.
        seed: random seed of the shop and of all visitors.
        products: number of products; their popularity is Zipf with exponent `skew`.
        users: number of users.
        skew: Zipf exponent.
    """

    def __init__(
        self, agent: int = 0, *, seed: int = 1, products: int = 400, users: int = 5_000, skew: float = 1.1
    ) -> None:
        shop = np.random.default_rng([seed, 0])
        self._products = _catalogue(products, shop)
        self._users = _people(users, shop)
        self._actions = [
            f'"kind":"{kind}","clicks_count":{clicks},"likes_count":{likes},"buys_count":{buys},'
            for kind, clicks, likes, buys in _ACTIONS
        ]
        popularity = 1.0 / np.arange(1, products + 1) ** skew
        self._popular = np.cumsum(popularity / popularity.sum())
        self._doing = np.cumsum(_ACTION_SHARES)
        self._visitors = np.random.default_rng([seed, 1, agent])
        self._first_id = agent << 40
        self._written = 0
        self._drawn: list[str] = []

    def lines(self, times_us: Times | Sequence[int]) -> bytes:
        """Return the next lines, one per timestamp (microseconds UTC). Cost: about 1 µs per line."""
        stamps = np.asarray(times_us, dtype=np.int64)
        while len(self._drawn) < len(stamps):
            self._drawn += self._draw()
        bodies, self._drawn = self._drawn[: len(stamps)], self._drawn[len(stamps) :]
        iso = np.datetime_as_string(stamps.astype("datetime64[us]"), unit="us").tolist()
        seconds = (stamps // MICROS).tolist()
        spoken = {second: _spoken(second) for second in set(seconds)}
        first = self._first_id + self._written
        self._written += len(bodies)
        return "".join(
            [
                f'{{"ts":"{ts}Z","created_at":"{spoken[second]}","id":{number},{body}'
                for number, (ts, second, body) in enumerate(zip(iso, seconds, bodies, strict=True), first)
            ]
        ).encode()

    def _draw(self) -> list[str]:
        chance = self._visitors.random((2, BLOCK))
        products = np.searchsorted(self._popular, chance[0], side="right").tolist()
        actions = np.searchsorted(self._doing, chance[1], side="right").tolist()
        users = self._visitors.integers(0, len(self._users), BLOCK).tolist()
        last_product, last_action = len(self._products) - 1, len(self._actions) - 1
        return [
            self._actions[min(action, last_action)]
            + self._products[min(product, last_product)]
            + self._users[user]
            for action, product, user in zip(actions, products, users, strict=True)
        ]


class TrafficWriter:
    """Appends the lines of an agent to its log file at a constant rate.

    Args:
        path: log file; created if it does not exist.
        traffic: generator of the lines.
        rate_per_s: lines per second.
        now_us: start time in microseconds.

    Raises:
        StorageError: the file cannot be opened or written.
    """

    def __init__(self, path: Path, traffic: ShopTraffic, *, rate_per_s: float, now_us: int) -> None:
        self.path = path
        self.written = 0
        self._traffic = traffic
        self._rate_per_s = rate_per_s
        self._begun_us = self._last_us = now_us
        try:
            self._file: IO[bytes] = path.open("ab", buffering=0)
        except OSError as error:
            raise StorageError(f"cannot write: {error.strerror}", where=str(path)) from None

    def advance(self, now_us: int) -> int:
        """Write the lines that are due, with timestamps just before `now_us`. Returns their number."""
        due = int((now_us - self._begun_us) * self._rate_per_s / MICROS) - self.written
        since = max(self._last_us, now_us - STAMP_SPREAD_US)
        if due <= 0 or now_us <= since:
            return 0
        stamps = since + (np.arange(1, due + 1) * (now_us - since)) // due
        _write_all(self._file, self._traffic.lines(stamps), self.path)
        self.written += due
        self._last_us = now_us
        return due

    @property
    def last_us(self) -> int:
        """Timestamp of the newest line; the start time if there is no line."""
        return self._last_us

    def close(self) -> None:
        self._file.close()


def write_bulk(
    path: Path, count: int, traffic: ShopTraffic, *, start_us: int, rate_per_s: float = 1_000.0
) -> int:
    """Append `count` lines with timestamps from `start_us` on at `rate_per_s`; returns the bytes."""
    size = 0
    try:
        with path.open("ab", buffering=0) as file:
            for first in range(0, count, 1 << 16):
                numbers = np.arange(first, min(count, first + (1 << 16)))
                stamps = start_us + (numbers * (MICROS / rate_per_s)).astype(np.int64)
                size += _write_all(file, traffic.lines(stamps), path)
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", where=str(path)) from None
    return size


def _write_all(file: IO[bytes], data: bytes, path: Path) -> int:
    try:
        rest = memoryview(data)
        while rest:
            rest = rest[file.write(rest) :]
    except OSError as error:
        raise StorageError(f"cannot write: {error.strerror}", where=str(path)) from None
    return len(data)


def _catalogue(count: int, shop: np.random.Generator) -> list[str]:
    """Return products in order of decreasing popularity. The first one is the paper's; names are unique."""
    names = [f"{first} {second}" for second in _SECOND.split() for first in _FIRST.split()]
    order = [0, *(int(i) for i in 1 + shop.permutation(len(names) - 1))]
    directories = shop.choice(len(DIRECTORIES), size=count, p=_DIRECTORY_SHARES)
    directories[0] = 0
    parts = []
    for number in range(count):
        edition, which = divmod(number, len(names))
        name = names[order[which]] + (f" {edition + 1}" if edition else "")
        parts.append(f'"product":{json.dumps(name)},"directory":"{DIRECTORIES[directories[number]]}",')
    return parts


def _people(count: int, shop: np.random.Generator) -> list[str]:
    ids = 100_000_000 + shop.choice(900_000_000, size=count, replace=False)
    where = shop.choice(len(LOCATIONS), size=count, p=_LOCATION_SHARES)
    given = _NAMES.split()
    names = [f"@{given[number % len(given)]}{number}" for number in range(count)]
    return [
        f'"user":{{"id":{user},"name":"{name}","location":"{LOCATIONS[place]}"}}}}\n'
        for user, name, place in zip(ids, names, where, strict=True)
    ]


def _spoken(second: int) -> str:
    """Format a time as the paper does: "Fri Feb 08 01:10:17 +0000 2013"."""
    return datetime.fromtimestamp(second, UTC).strftime("%a %b %d %H:%M:%S +0000 %Y")


@click.command("traffic")
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--lines", default=10_000, show_default=True, help="Number of lines to append at once.")
@click.option(
    "--seconds", type=float, help="Instead, write lines live for this many seconds, with the current time."
)
@click.option("--rate", default=100.0, show_default=True, help="Lines per second.")
@click.option(
    "--agent", default=0, show_default=True, help="Number of the web server whose traffic is generated."
)
@click.option("--seed", default=1, show_default=True, help="Random seed of the shop.")
@click.option(
    "--start", default="2026-01-01T00:00:00Z", show_default=True, help="Timestamp of the first line."
)
def main(
    path: Path, lines: int, seconds: float | None, rate: float, agent: int, seed: int, start: str
) -> None:
    """Append a generated shop's click stream to PATH, as newline-delimited JSON."""
    traffic = ShopTraffic(agent, seed=seed)
    if seconds is None:
        begin = int(datetime.fromisoformat(start).timestamp() * MICROS)
        write_bulk(path, lines, traffic, start_us=begin, rate_per_s=rate)
        return
    writer = TrafficWriter(path, traffic, rate_per_s=rate, now_us=time.time_ns() // 1000)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.02)
        writer.advance(time.time_ns() // 1000)
    writer.close()


if __name__ == "__main__":
    main()
