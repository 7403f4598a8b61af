"""Compares a dependency between columns with the records of a log: two values of a column for one key.

Paper: Blazes IV-A (seals), V-A (compatible partitions by functional dependencies).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from elfmesh.local.embedded import answers


def contradiction(log: str, left: Collection[str], right: Collection[str]) -> str:
    """Return a key of the log, of the left columns, that has two values of a right column, or nothing.

    A record without a value of the column contradicts nothing.

    Raises:
        DataError, RuntimeFailure: the log cannot be read.
        QueryError: its records cannot have such a column.

    Cost: one pass over the log for each determined column, with one row for each key.
    """
    return next(_of_columns(log, sorted(left), right), "")


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
