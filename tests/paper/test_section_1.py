"""ELF (USENIX ATC 2014), section 1: what its applications need."""

from __future__ import annotations

import json
from typing import ClassVar

import numpy as np
import pyarrow as pa

from elfmesh.cbt import (
    Panes,
    finish,
)
from elfmesh.cli.demo.traffic import ShopTraffic
from tests.paper.cases import as_dict


def test_a_sliding_window_of_the_product_bundling_kind() -> None:
    """1: "iteratively updating the graph over some sliding time window"; here by the inverse of sum."""

    class Clicks:
        name = "main"
        keys = ("key",)
        aggregates: ClassVar = {"value": ("sum", "v")}

    panes = Panes([Clicks()], 15, 5, slide_panes_min=3)
    seconds = np.arange(30)
    panes.insert("main", seconds // panes.pane_us, pa.record_batch({"key": ["a"] * 30, "v": seconds}))
    for index in range(4):
        window = panes.window(index)
        assert window is not None
        assert as_dict(finish(window)["main"]) == {"a": sum(range(index * 5, index * 5 + 15))}


def test_the_logs_are_clicks_likes_and_buys_of_products() -> None:
    """1: "grouping clicks per product and calculating the top-k products being viewed", and "extracting user
    likes and buys from logs".
    """
    lines = ShopTraffic(1).lines([1_767_225_600_000_000 + at * 1000 for at in range(2_000)])
    records = [json.loads(line) for line in lines.splitlines()]
    kinds = {record["kind"] for record in records}
    for what in ("clicks_count", "likes_count", "buys_count"):
        assert any(record[what] for record in records), what
    assert len(kinds) == 3
    assert all(record["product"] and record["user"]["id"] for record in records)
