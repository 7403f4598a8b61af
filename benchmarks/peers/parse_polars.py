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
    schema = {name: CLICKS.get(name, pl.String) for name in CSV_HEADER}
    places = [CSV_HEADER.index(name) for name in FIELDS["csv"]]
    return pl.read_csv(io.BytesIO(block), has_header=False, schema=schema, columns=places).to_arrow()


def _combined(block: bytes) -> pa.Table:
    schema = dict.fromkeys(COMBINED_WORDS, pl.String) | {"status": pl.Int64, "bytes": pl.Int64}
    frame = pl.read_csv(
        io.BytesIO(block), has_header=False, separator=" ", null_values="-", schema=schema,
        columns=[COMBINED_WORDS.index(name) for name in ("host", "request", "status", "bytes")],
    )  # fmt: skip
    path = pl.col("request").str.splitn(" ", 3).struct.field("field_1")
    return frame.select("host", path, "status", "bytes").to_arrow()


def make(_variant: str, form: str) -> Callable[[bytes], pa.Table]:
    return {"json": _json, "csv": _csv, "combined": _combined}[form]


if __name__ == "__main__":
    meter.parse_main(make)
