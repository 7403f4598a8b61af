"""What an answer with rows has in common: it is used as the table that it holds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class HoldsTable:
    """A pyarrow table with something beside it.

    `to_pylist()`, `num_rows`, `schema` and all else of a table are there, `answer["hits"]` is a column, and
    `pyarrow.table(answer)`, pandas, polars and DuckDB take it as it is.
    """

    __slots__ = ()
    table: pa.Table

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name in getattr(type(self), "__slots__", ()):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.table, name)

    def __getitem__(self, column: str | int) -> pa.ChunkedArray:
        return self.table[column]

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.table.__arrow_c_stream__(requested_schema)
