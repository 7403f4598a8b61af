"""What `elf run` answers for one interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from elfmesh.control.results.records import ResultRecord


@dataclass(frozen=True, slots=True)
class IntervalResult:
    """The answer of one interval: a pyarrow table to whoever uses it as one, with the interval's record.

    `to_pylist()`, `num_rows`, `schema` and all else of a table are there, `result["hits"]` is a column,
    and `pyarrow.table(result)`, pandas, polars and DuckDB take it as it is.

    Attributes:
        record: which interval, and the counts of its records.
        table: its rows, in the query's order.
    """

    record: ResultRecord
    table: pa.Table

    def __getattr__(self, name: str) -> Any:
        """What the table has."""
        if name in ("record", "table") or name.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.table, name)

    def __getitem__(self, column: str | int) -> pa.ChunkedArray:
        """A column of the table."""
        return self.table[column]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows, by the protocol of the Arrow C stream."""
        return self.table.__arrow_c_stream__(requested_schema)
