"""Jobs of many shapes over the shop's clicks, drawn at random: what a fleet with many users runs.

Each draw takes a filter, keys, aggregates, a window, perhaps HAVING, an order with a limit, and partitions;
every eighth job reads another one. Any two texts differ. The same seed gives the same jobs.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

FILTERS = (
    "", "", "WHERE kind = 'click'", "WHERE clicks_count > 1", "WHERE directory = 'Video Games'",
    "WHERE directory IN ('Books', 'Music', 'Toys')", "WHERE user.location <> 'test'",
    "WHERE product LIKE '%Birds%'", "WHERE product LIKE 'Golden%' OR likes_count > 0",
    "WHERE buys_count > 0 AND user.location = 'Ohio'", "WHERE id % 3 = 0", "WHERE length(product) < 14",
    "WHERE user.name LIKE '@A%'", "WHERE regexp_like(product, '(Castle|Quest|Racers)$')",
)  # fmt: skip
KEYS = (
    ("directory",), ("product",), ("user.location",), ("kind",), ("directory", "kind"),
    ("user.location", "kind"), ("directory", "user.location"), ("product", "directory"), (),
    ("upper(left(product, 1))",), ("user.id % 16",),
)  # fmt: skip
AGGREGATES = (
    "count(*)", "SUM(clicks_count)", "MAX(clicks_count)", "MIN(user.id)", "AVG(clicks_count)",
    "count(DISTINCT user.id)", "SUM(likes_count + buys_count)", "count(*) FILTER (WHERE buys_count > 0)",
    "MAX(product)", "stddev(clicks_count)", "approx_count_distinct(user.id)", "median(clicks_count)",
)  # fmt: skip
WINDOWS = (
    "TUMBLE(ts, INTERVAL '10' SECOND)", "TUMBLE(ts, INTERVAL '20' SECOND)",
    "TUMBLE(ts, INTERVAL '30' SECOND)", "HOP(ts, INTERVAL '10' SECOND, INTERVAL '30' SECOND)",
    "HOP(ts, INTERVAL '15' SECOND, INTERVAL '60' SECOND)", "SESSION(ts, INTERVAL '10' SECOND)",
)  # fmt: skip
READER_EVERY = 8
READABLE = WINDOWS[:3]
"""Windows of the jobs that others read."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A job.

    Attributes:
        name: as the API says it, "bench/job7".
        text: its ELF-QL.
        reads: the name of the job that it reads, if it does.
        keys: how many keys it groups by: columns k0, k1, ...
        readable: whether others may read it.
    """

    name: str
    text: str
    reads: str | None = None
    keys: int = 0
    readable: bool = False


def shapes(count: int, seed: int = 1) -> list[Shape]:
    """So many different jobs; who reads another comes after it."""
    rng = random.Random(seed)
    found: list[Shape] = []
    bodies: set[str] = set()
    while len(found) < count:
        number = len(found)
        readable = [each for each in found if each.readable]
        if number % READER_EVERY == READER_EVERY - 1 and readable:
            drawn = _reader(rng, rng.choice(readable))
        else:
            drawn = _of_stream(rng)
        if drawn.text not in bodies:
            bodies.add(drawn.text)
            text = f"CREATE JOB bench.job{number} {drawn.text}"
            found.append(replace(drawn, name=f"bench/job{number}", text=text))
    return found


def _of_stream(rng: random.Random) -> Shape:
    window, keys = rng.choice(WINDOWS), rng.choice(KEYS)
    values = [f"{each} AS v{n}" for n, each in enumerate(rng.sample(AGGREGATES, rng.randint(1, 3)))]
    shown = [f"{key} AS k{n}" for n, key in enumerate(keys)]
    text = f"AS SELECT {', '.join([*shown, *values])} FROM clicks {rng.choice(FILTERS)}"
    text += f" GROUP BY {', '.join([window, *keys])}"
    if rng.random() < 0.2:
        text += " HAVING count(*) > 2"
    limited = bool(keys) and rng.random() < 0.4
    if limited:
        text += (
            f" ORDER BY v0 DESC, {', '.join(f'k{n}' for n in range(len(keys)))} LIMIT {rng.choice((3, 10))}"
        )
    if keys and rng.random() < 0.2:
        text = f"PARTITIONS {rng.choice((2, 3))} {text}"
    text = f"ON STRAGGLER WAIT {text}"  # all rows are compared: a slow machine must not leave any out
    return Shape("", text, None, len(keys), window in READABLE and not limited)


def _reader(rng: random.Random, read: Shape) -> Shape:
    name = read.name.replace("/", ".")
    value = rng.choice(("MAX(v0)", "MIN(v0)", "count(*)", "count(DISTINCT v0)"))
    every, keys = rng.choice((60, 120)), ("k0",) if read.keys else ()
    text = f"EVERY '{every} s' AS SELECT {', '.join([*keys, f'{value} AS v0'])} FROM {name}"
    return Shape("", text + (" GROUP BY k0" if keys else ""), read.name, len(keys))
