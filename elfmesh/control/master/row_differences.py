"""The rows in which two results of one interval differ."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Any

from elfmesh.ql.values.row_json import rows_to_json

if TYPE_CHECKING:
    import pyarrow as pa

DIFFERENCES_MAX = 10
"""Differences that an outcome names."""

COMPARED_ROWS = 1024
"""Rows that are compared one by one if they are not equal as a whole."""


def differing(published: pa.Table, recomputed: pa.Table) -> list[dict[str, Any]]:
    """The first rows that differ, as JSON values; None stands for a row that one side lacks.

    Cost: a comparison of columns; only stretches that are not equal become Python objects.
    """
    found: list[dict[str, Any]] = []
    for at in range(0, max(len(published), len(recomputed)), COMPARED_ROWS):
        one, other = published.slice(at, COMPARED_ROWS), recomputed.slice(at, COMPARED_ROWS)
        if one.equals(other):
            continue
        pairs = zip_longest(rows_to_json(one), rows_to_json(other))
        found += [{"published": row, "recomputed": again} for row, again in pairs if row != again]
        if len(found) >= DIFFERENCES_MAX:
            break
    return found[:DIFFERENCES_MAX]
