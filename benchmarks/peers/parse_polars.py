"""polars' readers, block by block."""

from __future__ import annotations

import io
from collections.abc import Callable

import polars as pl
import pyarrow as pa

from benchmarks import meter
from benchmarks.peers.columns import COMBINED_WORDS, CSV_HEADER, FIELDS

CLICKS = {"product": pl.String, "clicks_count": pl.Int64, "price": pl.Float64}


def _json(block: bytes) -> pa.Table:
    schema = {**CLICKS, "user": pl.Struct({"location": pl.String})}
    frame = pl.read_ndjson(io.BytesIO(block), schema=schema)
    location = pl.col("user").struct.field("location")
    return frame.select("product", "clicks_count", "price", location).to_arrow()


def _csv(block: bytes) -> pa.Table:
    names = list(FIELDS["csv"])
    places = [CSV_HEADER.index(name) for name in names]
    types = {
        f"column_{place + 1}": CLICKS.get(name, pl.String) for place, name in zip(places, names, strict=True)
    }
    frame = pl.read_csv(io.BytesIO(block), has_header=False, columns=places, schema_overrides=types)
    return frame.to_arrow()


def _combined(block: bytes) -> pa.Table:
    wanted = ("host", "request", "status", "bytes")
    places = [COMBINED_WORDS.index(name) for name in wanted]
    names = [f"column_{place + 1}" for place in places]
    kinds = (pl.String, pl.String, pl.Int64, pl.Int64)
    frame = pl.read_csv(
        io.BytesIO(block), has_header=False, separator=" ", columns=places, null_values="-",
        schema_overrides=dict(zip(names, kinds, strict=True)),
    )  # fmt: skip
    path = pl.col(names[1]).str.splitn(" ", 3).struct.field("field_1")
    return frame.select(names[0], path, names[2], names[3]).to_arrow()


def make(_variant: str, form: str) -> Callable[[bytes], pa.Table]:
    return {"json": _json, "csv": _csv, "combined": _combined}[form]


if __name__ == "__main__":
    meter.parse_main(make)
