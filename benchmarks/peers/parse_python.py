"""Python's ways: `json`, `orjson`, `msgspec` (typed) for JSON lines; `re` over blocks for the others."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.columns import COMBINED, FIELDS, LOGFMT


def _table(form: str, rows: Iterable[Any]) -> pa.RecordBatch:
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    return pa.RecordBatch.from_arrays(columns, names=list(FIELDS[form]))


def _objects(loads: Callable[[bytes], Any]) -> Callable[[bytes], pa.RecordBatch]:
    def rows(block: bytes) -> Iterable[Any]:
        for line in block.splitlines():
            o = loads(line)
            yield o["product"], o["clicks_count"], o["price"], o["user"]["location"]

    return lambda block: _table("json", rows(block))


def _msgspec() -> Callable[[bytes], pa.RecordBatch]:
    import msgspec

    user = msgspec.defstruct("User", [("location", str)], gc=False)
    fields = [("product", str), ("clicks_count", int), ("price", float), ("user", user)]
    decoder = msgspec.json.Decoder(msgspec.defstruct("Click", fields, gc=False))

    def parse(block: bytes) -> pa.RecordBatch:
        rows: list[Any] = decoder.decode_lines(block)
        columns = [[row.product for row in rows], [row.clicks_count for row in rows]]
        columns += [[row.price for row in rows], [row.user.location for row in rows]]
        return pa.RecordBatch.from_arrays(
            [pa.array(values) for values in columns], names=list(FIELDS["json"])
        )

    return parse


def _regex(form: str) -> Callable[[bytes], pa.RecordBatch]:
    find = re.compile(COMBINED if form == "combined" else LOGFMT, re.MULTILINE).findall

    def number(text: bytes) -> int | None:
        return None if text == b"-" else int(text)

    def parse(block: bytes) -> pa.RecordBatch:
        if form == "combined":
            return _table(form, ((h, p, int(s), number(b)) for h, p, s, b in find(block)))
        return _table(form, ((p, int(c), float(e), w) for p, c, e, w in find(block)))

    return parse


def make(variant: str, form: str) -> Callable[[bytes], pa.RecordBatch]:
    if variant == "msgspec":
        return _msgspec()
    if variant == "orjson":
        import orjson

        return _objects(orjson.loads)
    return _objects(json.loads) if variant == "json" else _regex(form)


if __name__ == "__main__":
    meter.parse_main(make)
