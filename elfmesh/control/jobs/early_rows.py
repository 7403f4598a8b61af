"""Early rows that a final record lacks.

Owns the comparison of early rows with final ones, by the columns that an early row does not change later.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from elfmesh.lazy import lazy_module
from elfmesh.ql.values.plain_ipc import ipc_to_table
from elfmesh.ql.values.row_json import encode_json, rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa
else:
    pa = lazy_module("pyarrow")

WITHDRAWN_MAX = 1000
"""Maximum number of withdrawn rows that a record names; beyond it, readers have to compare rows (D-19)."""


def withdrawn_rows(
    lines: Sequence[bytes], final: pa.Table | None, columns: Sequence[str]
) -> list[dict[str, Any]]:
    """Return the early rows without a final row, as plain values of their stable columns.

    Args:
        lines: the rows of the early lines, as Arrow IPC streams.
        final: the final rows; None: there are none.
        columns: the stable columns.
    """
    left = Counter[bytes]()
    shown = dict[bytes, dict[str, Any]]()
    for line in lines:
        for row in rows_to_json(ipc_to_table(line).select(list(columns))):
            key = _key(row)
            left[key] += 1
            shown[key] = row
    if final is not None and left and set(columns) <= set(final.column_names):
        left.subtract(_key(row) for row in rows_to_json(final.select(list(columns))))
    missing = [key for key in shown for _ in range(max(0, left[key]))]
    return [shown[key] for key in missing[:WITHDRAWN_MAX]]


def _key(row: dict[str, Any]) -> bytes:
    """Return equal bytes for equal rows, also if a number is an integer in one and a double in the other."""
    whole = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value
        for name, value in row.items()
    }
    return encode_json(whole)
