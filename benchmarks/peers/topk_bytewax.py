"""Bytewax: top 10 products per 10 s of event time, from a file of JSON lines."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
from bytewax import operators as op
from bytewax.connectors.files import FileSource
from bytewax.dataflow import Dataflow
from bytewax.operators import windowing
from bytewax.outputs import DynamicSink, StatelessSinkPartition
from bytewax.testing import cluster_main

BATCH_LINES = 1000
Window = tuple[str, tuple[int, Counter[str]]]


class Print(StatelessSinkPartition[Window]):  # type: ignore[misc]  # no types where it is not installed
    def write_batch(self, items: Iterable[Window]) -> None:
        for _, (number, counter) in items:
            for product, clicks in sorted(counter.items(), key=lambda item: (-item[1], item[0]))[:10]:
                print(json.dumps([number * 10, product, clicks]))


class Printing(DynamicSink[Window]):  # type: ignore[misc]  # no types where it is not installed
    def build(self, _step_id: str, _worker_index: int, _worker_count: int) -> Print:
        return Print()


def moment(click: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(click["ts"])


def add(counter: Counter[str], click: dict[str, Any]) -> Counter[str]:
    counter[click["product"]] += click["clicks_count"]
    return counter


def main(_work: str, path: str) -> None:
    flow = Dataflow("topk")
    lines = op.input("lines", flow, FileSource(path, batch_size=BATCH_LINES))
    clicks = op.map("parse", lines, orjson.loads)
    keyed = op.key_on("all", clicks, lambda _click: "all")
    windows = windowing.fold_window(
        "fold",
        keyed,
        windowing.EventClock(moment, wait_for_system_duration=timedelta(seconds=10)),
        windowing.TumblingWindower(length=timedelta(seconds=10), align_to=datetime(1970, 1, 1, tzinfo=UTC)),
        Counter,
        add,
        lambda left, right: left + right,
    )
    op.output("print", windows.down, Printing())
    cluster_main(flow, [], 0)


if __name__ == "__main__":
    main(*sys.argv[1:3])
