"""One expression over columns of a few rows: what it gives for each row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tests.ql.conftest import run


def values(expression: str, **columns: Any) -> list[Any]:
    """The expression for each row; without columns for one row, so that its arguments are constants."""
    rows = max(map(len, columns.values()), default=1)
    table = pa.table({"at": list(range(rows)), **columns})
    (result,) = run(f"SELECT at, {expression} AS x FROM t", table).values()
    return [row["x"] for row in sorted(result.to_pylist(), key=lambda row: int(row["at"]))]
