"""Jobs of the demo: the paper's three, and one with early rows. Owns their texts and what was read of them.

Paper: ELF 1, Figure 1.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from elfmesh.cli.demo.view import clock

MICRO_PROMOTION = """\
CREATE JOB shop.micro_promotion EVERY '5 s' LATENESS '1 s' DEADLINE '1 s' AS
SELECT product, SUM(clicks_count) AS clicks
FROM clicks
WHERE directory = 'Video Games' AND user.location <> 'test'
GROUP BY TUMBLE(ts, INTERVAL '5' SECOND), product
HAVING SUM(clicks_count) > 1
ORDER BY clicks DESC LIMIT 10"""
PRODUCT_BUNDLING = """\
CREATE JOB shop.product_bundling LATENESS '1 s' DEADLINE '1 s' AS
SELECT a.product, b.product AS bundled_with, COUNT(DISTINCT a.user.id) AS people
FROM clicks a JOIN clicks b ON a.user.id = b.user.id AND a.product <> b.product
WHERE a.likes_count + a.buys_count > 0 AND b.likes_count + b.buys_count > 0
  AND a.directory = 'Video Games' AND b.directory = 'Video Games'
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), a.product, b.product
ORDER BY people DESC LIMIT 50"""
SALE_PREDICTION = """\
CREATE JOB shop.sale_prediction EVERY '10 s' AS
SELECT b.product, SUM(b.people * m.clicks) AS score, COUNT(DISTINCT m.product) AS popular_peers
FROM shop.product_bundling b JOIN shop.micro_promotion m ON b.bundled_with = m.product
GROUP BY b.product
ORDER BY score DESC LIMIT 5"""
HOT = """\
CREATE JOB shop.hot EARLY '250 ms' LATENESS '1 s' DEADLINE '1 s' AS
SELECT product, COUNT(*) AS clicks
FROM clicks
GROUP BY TUMBLE(ts, INTERVAL '10' SECOND), product
HAVING COUNT(*) >= 10
ORDER BY clicks DESC"""
JOBS_NOTE = """\
The paper's three jobs: micro-promotion (which games are popular now), product bundling (which games the same
people like or buy), and sale prediction, which reads the results of the other two. A fourth job names a
product as soon as its count has reached 10, before the window closes."""


@dataclass(slots=True)
class DemoJob:
    """A job of the demo and its results by interval index; `reads` names the jobs whose results it reads.

    `early` has the early lines by interval, if the job has EARLY.
    """

    name: str
    text: str
    slide_us: int
    reads: tuple[str, ...] = ()
    records: dict[int, dict[str, Any]] = field(default_factory=dict)
    early: dict[int, list[dict[str, Any]]] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """Return the states of the lines to follow."""
        return "early" if "EARLY" in self.text else "final"

    def ordered(self) -> list[dict[str, Any]]:
        return [self.records[index] for index in sorted(self.records)]


def demo_jobs() -> list[DemoJob]:
    return [
        DemoJob("shop/micro_promotion", MICRO_PROMOTION, 5_000_000),
        DemoJob("shop/product_bundling", PRODUCT_BUNDLING, 10_000_000),
        DemoJob(
            "shop/sale_prediction",
            SALE_PREDICTION,
            10_000_000,
            ("shop/product_bundling", "shop/micro_promotion"),
        ),
        DemoJob("shop/hot", HOT, 10_000_000),
    ]


def early_text(line: dict[str, Any]) -> str:
    """Return one line about early rows and the time that was left."""
    window = line["interval"]
    left_s = datetime.fromisoformat(window["end"]).timestamp() - time.time()
    shown = ", ".join(" ".join(map(str, row.values())) for row in line["rows"][:2])
    about = f"{line['job']} {clock(window['start'])}-{clock(window['end'])} EARLY"
    return f"{about}, {left_s:.1f} s before its end: {shown}"
