"""polars, lazily over the whole file: top 10 products per 10 s."""

from __future__ import annotations

import json
import sys

import polars as pl


def main(_work: str, path: str) -> None:
    schema = {"ts": pl.String, "product": pl.String, "clicks_count": pl.Int64}
    moment = pl.col("ts").str.to_datetime("%Y-%m-%dT%H:%M:%S%.fZ", time_unit="us")
    groups = (
        pl.scan_ndjson(path, schema=schema)
        .group_by(moment.dt.truncate("10s").dt.epoch("s").alias("w"), "product")
        .agg(pl.col("clicks_count").sum().alias("clicks"))
        .sort("w", "clicks", "product", descending=[False, True, False])
        .group_by("w", maintain_order=True)
        .head(10)
        .select("w", "product", "clicks")
        .collect(engine="streaming")
    )
    for row in groups.iter_rows():
        print(json.dumps(row))


if __name__ == "__main__":
    main(*sys.argv[1:3])
