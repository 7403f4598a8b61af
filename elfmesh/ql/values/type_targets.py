"""Types that may follow AS in CAST or `::`, by sqlglot's names."""

from __future__ import annotations

import pyarrow as pa
from sqlglot import exp

from elfmesh.ql.values.cast import TARGETS, cast

TYPE_NAMES = ", ".join((*TARGETS, "DECIMAL(p, s)"))
"""List of the types for messages."""

_TYPES: dict[str, str] = {
    "BIGINT": "BIGINT", "INT": "INT", "SMALLINT": "SMALLINT", "TINYINT": "TINYINT", "DOUBLE": "DOUBLE",
    "FLOAT": "FLOAT",
    "TEXT": "STRING", "VARCHAR": "STRING", "BOOLEAN": "BOOLEAN", "DATE": "DATE", "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP", "TIMESTAMPLTZ": "TIMESTAMP", "BINARY": "BINARY", "VARBINARY": "BINARY",
}  # fmt: skip


def type_target(kind: exp.DataType) -> str | None:
    """Return the name of a type that CAST has; None for others."""
    sizes = [size.name for size in kind.expressions]
    if kind.this.name != "DECIMAL":
        return None if sizes else _TYPES.get(kind.this.name)
    if len(sizes) > 2 or not all(size.isdigit() for size in sizes):
        return None
    precision, scale = int(sizes[0]) if sizes else 10, int(sizes[1]) if len(sizes) == 2 else 0
    return f"DECIMAL({precision},{scale})" if 1 <= precision <= 38 and scale <= precision else None


def is_no_value(node: exp.Cast, target: str) -> bool:
    """Return whether the node is `DATE '2020-02-30'` or similar: a type keyword before an invalid string.

    Spark raises an error for it, but returns null for CAST('2020-02-30' AS DATE), which sqlglot parses as a
    `TryCast`.
    """
    if isinstance(node, exp.TryCast) or target not in ("DATE", "TIMESTAMP") or not node.this.is_string:
        return False
    return not cast(pa.array([node.this.name]), target)[0].is_valid
