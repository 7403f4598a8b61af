"""pyarrow.json with a schema, pyarrow.csv (for access logs with a space as delimiter)."""

from __future__ import annotations

import io
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, json

from benchmarks import meter
from benchmarks.peers.columns import COMBINED_WORDS, CSV_HEADER, FIELDS

SCHEMA = pa.schema(
    [
        ("product", pa.string()),
        ("clicks_count", pa.int64()),
        ("price", pa.float64()),
        ("user", pa.struct([("location", pa.string())])),
    ]
)
BLOCK_BYTES = 4 << 20


def _json(block: bytes) -> pa.Table:
    table = json.read_json(
        io.BytesIO(block),
        read_options=json.ReadOptions(use_threads=False, block_size=BLOCK_BYTES),
        parse_options=json.ParseOptions(explicit_schema=SCHEMA, unexpected_field_behavior="ignore"),
    )
    location = pc.struct_field(table["user"], "location")
    return table.drop_columns("user").append_column("user.location", location).select(FIELDS["json"])


def _csv(block: bytes) -> pa.Table:
    types = {
        "product": pa.string(),
        "clicks_count": pa.int64(),
        "price": pa.float64(),
        "location": pa.string(),
    }
    return csv.read_csv(
        io.BytesIO(block),
        read_options=csv.ReadOptions(use_threads=False, column_names=CSV_HEADER, block_size=BLOCK_BYTES),
        convert_options=csv.ConvertOptions(include_columns=FIELDS["csv"], column_types=types),
    )


def _combined(block: bytes) -> pa.Table:
    types = {"host": pa.string(), "request": pa.string(), "status": pa.int64(), "bytes": pa.int64()}
    table = csv.read_csv(
        io.BytesIO(block),
        read_options=csv.ReadOptions(use_threads=False, column_names=COMBINED_WORDS, block_size=BLOCK_BYTES),
        parse_options=csv.ParseOptions(delimiter=" ", quote_char='"'),
        convert_options=csv.ConvertOptions(
            include_columns=list(types), column_types=types, null_values=["-"]
        ),
    )
    path = pc.list_element(pc.split_pattern(table["request"], " "), 1)
    return pa.table([table["host"], path, table["status"], table["bytes"]], names=list(FIELDS["combined"]))


def make(_variant: str, form: str) -> Callable[[bytes], pa.Table]:
    return {"json": _json, "csv": _csv, "combined": _combined}[form]


if __name__ == "__main__":
    meter.parse_main(make)
