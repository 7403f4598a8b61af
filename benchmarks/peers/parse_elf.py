"""Our own parsers as a contestant."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import meter
from benchmarks.peers.columns import CSV_HEADER, FIELDS
from elfmesh.ingest.parsers import StreamFormat

NUMBERS = {"clicks_count": pa.int64(), "price": pa.float64()}
"""Of formats without types: what a query's CAST makes of the text."""


def make(_variant: str, form: str) -> Callable[[bytes], pa.RecordBatch]:
    parser = StreamFormat(f"csv:{','.join(CSV_HEADER)}" if form == "csv" else form).parser()
    names = FIELDS[form]

    def parse(block: bytes) -> pa.RecordBatch:
        parsed = parser.parse(block, names)
        assert parsed.errors == 0, parsed.samples
        batch = parsed.batch
        columns = [
            pc.cast(batch.column(name), NUMBERS[name]) if name in NUMBERS else batch.column(name)
            for name in names
        ]
        return pa.RecordBatch.from_arrays(columns, names=list(names))

    return parse


if __name__ == "__main__":
    meter.parse_main(make)
