"""Partial aggregates of an interval as plain columns (KEEP PARTIALS), for roll-ups elsewhere.

Each group has its keys, and for each aggregate columns that can be combined: a sum and a count for avg(x),
Apache DataSketches bytes for a sketch, the values for count(DISTINCT x). HAVING, ORDER BY, OFFSET and LIMIT
do not apply. Equal content gives equal tables, whatever the order of its rows was.

Paper: ELF 2.2 (PAOs can be merged anywhere; here in another system).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from elfmesh.cbt import Content
from elfmesh.cbt.laws import LAWS
from elfmesh.cbt.nested import is_nested_key, nested_values
from elfmesh.ql.engine.finalise import sorted_rows
from elfmesh.ql.expressions.nodes import Expr, Ref, walk
from elfmesh.ql.functions.compiler import read_column
from elfmesh.ql.plan.reduction import distinct_columns
from elfmesh.ql.plan.statement import COUNT_COLUMN, MAIN, DistinctValues, Statement
from elfmesh.ql.values.columns import as_array
from elfmesh.ql.values.joining import row_codes


def partial_table(statement: Statement, tables: Mapping[str, Content]) -> pa.Table:
    """Return the partial aggregates of one interval, one row per group.

    Cost: all distinct values in memory.
    """
    names = names_of(statement)
    main = tables.get(MAIN)
    blocks = list(_blocks(main)) if main is not None else []
    if not blocks:
        own = [name for name, _ in _averaged(statement, names)]
        return pa.table({name: pa.nulls(0) for name in (*names.values(), *own)})
    keys = statement.tables[0].keys
    whole = _together(blocks)
    columns = {name: _array(whole.column(name)) for name in whole.column_names}
    for one in statement.plan.distincts:
        values = tables.get(one.name)
        columns[one.name] = _values(columns, keys, whole.num_rows, one, values)
    ties = [columns[key] for key in keys]
    order = pa.array(sorted_rows([], ties, whole.num_rows))
    found = {
        _shown(names, name): column.take(order) for name, column in columns.items() if _is_kept(names, name)
    }
    return pa.table(found | {name: found[names[column]] for name, column in _averaged(statement, names)})


def names_of(statement: Statement) -> dict[str, str]:
    """Return the names of the columns k*, a* and d*, derived from the outputs that use them.

    An output that is a column gives the column its name. A computed output appends the kind of the aggregate
    to its own name (`mean_sum`, `mean_count`). A column without an output keeps its name.
    """
    main = statement.tables[0]
    kinds = {name: kind.partition(":")[0] for name, (kind, _) in main.aggregates.items()}
    kinds |= {one.name: "values" for one in statement.plan.distincts}
    whole, within = _shown_by(statement.plan.outputs)
    for fold in statement.plan.folds:
        if fold.name in within:
            within.setdefault(fold.table, within[fold.name])
    names: dict[str, str] = {}
    for column in (*main.keys, *kinds):
        name = whole.get(column) if column not in kinds or kinds[column] != "values" else None
        if name is None and column in within:
            name = f"{within[column]}_{kinds.get(column, 'key')}"
        names[column] = _free(name or column, names.values())
    return names


def _averaged(statement: Statement, names: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the columns of averages under names of the average, if another output has named the column.

    `SUM(x) AS s, AVG(x) AS m` share one sum. Readers of `m_sum` do not need to know that.
    """
    kinds = {name: kind.partition(":")[0] for name, (kind, _) in statement.tables[0].aggregates.items()}
    found: list[tuple[str, str]] = []
    for output, expr in statement.plan.outputs:
        within = {node.name: kinds.get(node.name, "") for node in walk(expr) if isinstance(node, Ref)}
        if sorted(within.values()) == ["count", "sum"]:
            wanted = [(f"{output}_{kind}", column) for column, kind in within.items()]
            known = {name.lower() for name in (*names.values(), *(each for each, _ in found))}
            found += [each for each in wanted if each[0].lower() not in known]
    return found


def _shown_by(outputs: Sequence[tuple[str, Expr]]) -> tuple[dict[str, str], dict[str, str]]:
    """Map each column to the first output that is this column, and to the first output that contains it."""
    whole: dict[str, str] = {}
    within: dict[str, str] = {}
    for name, expr in outputs:
        if isinstance(expr, Ref):
            whole.setdefault(expr.name, name)
        for node in walk(expr):
            if isinstance(node, Ref):
                within.setdefault(node.name, name)
    return whole, within


def _free(name: str, taken: Iterable[str]) -> str:
    known = {each.lower() for each in taken}  # Spark's column names are case-insensitive
    found, number = name, 1
    while found.lower() in known:
        number += 1
        found = f"{name}_{number}"
    return found


def _shown(names: Mapping[str, str], column: str) -> str:
    base, _, suffix = column.partition(" ")
    return f"{names[base]}_{suffix}" if suffix else names[base]


def _is_kept(names: Mapping[str, str], column: str) -> bool:
    return column.partition(" ")[0] in names


def _blocks(content: Content) -> Iterator[pa.Table]:
    """Yield keys, then the columns of each aggregate: "a0", or "a0 n", "a0 sum" if it has several."""
    for rows in content.rows():
        columns = dict(zip(rows.layout.keys, map(read_column, rows.keys), strict=True))
        for (name, kind), state in zip(rows.layout.aggregates, rows.states, strict=True):
            for suffix, column in LAWS[kind].partial(state, rows.count).items():
                shown = nested_values(column) if is_nested_key(column.type) else column
                columns[f"{name} {suffix}" if suffix else name] = shown
        yield pa.table(columns)


def _together(blocks: Sequence[pa.Table]) -> pa.Table:
    return pa.concat_tables(blocks, promote_options="permissive")


def _array(column: pa.ChunkedArray) -> pa.Array:
    return as_array(column, len(column))


def _values(
    main: Mapping[str, pa.Array],
    keys: tuple[str, ...],
    rows: int,
    one: DistinctValues,
    content: Content | None,
) -> pa.Array:
    """Return each group's list of distinct values, ascending, with their counts if a fold needs them."""
    blocks = list(_blocks(content)) if content is not None else []
    if not blocks:
        return pa.array([[]] * rows, pa.list_(pa.null()))
    table = _together(blocks)
    found = {name: _array(table.column(name)) for name in table.column_names}
    names = distinct_columns(len(one.args))
    fields = {f"value{at or ''}": found[name] for at, name in enumerate(names)}
    if one.counted:
        fields["count"] = found[COUNT_COLUMN]
    values = next(iter(fields.values()))
    if len(fields) > 1:
        values = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    pairs = [pa.chunked_array([main[key], found[key].cast(main[key].type)]) for key in keys]
    codes = row_codes([_array(pair) for pair in pairs], [True] * len(keys), rows + table.num_rows)
    order = sorted_rows([], [found[name] for name in names], table.num_rows)
    place = np.full(int(codes.max(initial=0)) + 1, rows, dtype=np.int64)
    place[codes[:rows]] = np.arange(rows)
    home = place[codes[rows:]][order]
    counts = np.bincount(home, minlength=rows)[:rows]
    taken = order[np.argsort(home, kind="stable")][: int(counts.sum())]
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), values.take(pa.array(taken)))
