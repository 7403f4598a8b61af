"""Compares assumptions with the records of a log: two values of a column for one key, a value beyond a bound.

Paper: Blazes IV-A (seals), V-A (compatible partitions by functional dependencies).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from elfmesh.local.embedded import answers
from elfmesh.ql.expressions.assumption import AssumedBound


def contradiction(log: str, left: Collection[str], right: Collection[str]) -> str:
    """Return a key of the log, of the left columns, that has two values of a right column, or nothing.

    A record without a value of the column contradicts nothing.

    Raises:
        DataError, RuntimeFailure: the log cannot be read.
        QueryError: its records cannot have such a column.

    Cost: one pass over the log for each determined column, with one row for each key.
    """
    return next(_of_columns(log, sorted(left), right), "")


def excess(log: str, bound: AssumedBound) -> str:
    """Return a value of the log that is beyond a bound, or nothing.

    Raises:
        DataError, RuntimeFailure: the log cannot be read.
        QueryError: its records cannot have such a column, or it has no numbers.

    Cost: one pass over the log.
    """
    extreme, column = "max" if bound.upper else "min", f"CAST(`{bound.column}` AS DOUBLE)"
    rows = answers(f"SELECT {extreme}({column}) AS value FROM log", log)[0].table.to_pylist()
    found = rows[0]["value"] if rows else None
    is_beyond = found is not None and (found > bound.limit if bound.upper else found < bound.limit)
    return f"a record has the {bound.column} {found:g}" if is_beyond else ""


def _of_columns(log: str, keys: list[str], columns: Collection[str]) -> Iterator[str]:
    keyed = ", ".join(f"`{name}`" for name in keys)
    for name in sorted(set(columns) - set(keys)):
        value = f"CAST(`{name}` AS STRING)"
        text = (
            f"SELECT {keyed}, min({value}) AS least_value, max({value}) AS most_value FROM log "
            f"GROUP BY {keyed} HAVING min({value}) <> max({value}) ORDER BY {keyed} LIMIT 1"
        )
        for row in answers(text, log)[0].table.to_pylist():
            key = ", ".join(f"{column} = {row[column]}" for column in keys)
            yield f"{key} has the {name} {row['least_value']} and {row['most_value']}"
