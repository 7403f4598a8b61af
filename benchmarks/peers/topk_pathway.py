"""Pathway: top 10 products per 10 s, from a file of JSON lines in its streaming engine's static mode."""

from __future__ import annotations

import json
import sys
from typing import Any

import pathway as pw


class Click(pw.Schema):  # type: ignore[misc]  # Pathway has no types
    ts: str
    product: str
    clicks_count: int


def main(_work: str, path: str) -> None:
    clicks = pw.io.jsonlines.read(path, schema=Click, mode="static")
    timed = clicks.select(
        window=pw.this.ts.dt.strptime("%Y-%m-%dT%H:%M:%S.%fZ").dt.floor("10s").dt.timestamp(unit="s"),
        product=pw.this.product,
        clicks=pw.this.clicks_count,
    )
    sums = timed.groupby(pw.this.window, pw.this.product).reduce(
        window=pw.this.window, product=pw.this.product, clicks=pw.reducers.sum(pw.this.clicks)
    )
    ranked = sums.select(window=pw.this.window, entry=pw.make_tuple(-pw.this.clicks, pw.this.product))
    tops = ranked.groupby(pw.this.window).reduce(
        window=pw.this.window, entries=pw.reducers.sorted_tuple(pw.this.entry)
    )

    def show(key: object, row: dict[str, Any], time: int, is_addition: bool) -> None:
        assert is_addition
        for clicks, product in list(row["entries"])[:10]:
            print(json.dumps([int(row["window"]), product, -clicks]))

    pw.io.subscribe(tops, on_change=show)
    pw.run(monitoring_level=pw.MonitoringLevel.NONE)


if __name__ == "__main__":
    main(*sys.argv[1:3])
