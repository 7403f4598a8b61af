"""Join of a lookup table with the records of a block, where they are read.

The caller provides the tables. Duplicate keys are refused, so a record matches at most one row of a table.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from elfmesh.errors import DataError
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.expressions.nodes import FieldRef, place_of, walk
from elfmesh.ql.expressions.operand import Env, Operand, convert
from elfmesh.ql.functions.compiler import Compiler, read_column
from elfmesh.ql.plan.inline import InlineTable
from elfmesh.ql.plan.statement import LOOKED_UP, LookupJoin, Statement
from elfmesh.ql.values.columns import Bools
from elfmesh.ql.values.joining import Ints, row_codes, taken
from elfmesh.ql.values.types import compared_type, type_name

LookupSource: TypeAlias = Callable[[str, tuple[str, ...]], pa.Table]
"""Returns some columns of the current content of a named table."""


def with_tables(tables: Sequence[InlineTable], others: LookupSource | None) -> LookupSource:
    own = {each.name: each for each in tables}

    def source(name: str, columns: tuple[str, ...]) -> pa.Table:
        if name in own:
            return own[name].table().select(list(columns))
        if others is None:
            raise DataError(f"there is no lookup table {name} here")
        return others(name, columns)

    return source


def look_up(
    statement: Statement, source: LookupSource, records: BlockRows
) -> tuple[Bools, dict[str, pa.Array]]:
    """Return which records stay, and the tables' columns for them, named `LOOKED_UP + alias.column`.

    Raises DataError if a table has a key twice or is unusable. Cost: a hash of both sides' keys per block.
    """
    stays = np.ones(records.rows, dtype=np.bool_)
    columns: dict[str, pa.Array] = {}
    for join in statement.lookups:
        table = source(join.name, join.columns)
        places = _partners(statement, join, table, records)
        if join.inner:
            stays &= places >= 0
        for column in join.columns:
            columns[f"{LOOKED_UP}{join.alias}.{column}"] = taken(read_column(table.column(column)), places)
    return stays, columns


def _partners(statement: Statement, join: LookupJoin, table: pa.Table, records: BlockRows) -> Ints:
    """Return the row of the table that each record matches, -1 for none."""
    names = {node.path for expr, _ in join.keys for node in walk(expr) if isinstance(node, FieldRef)}
    env = records.env(tuple(sorted(names)))
    compiler = Compiler({name: array.type for name, array in env.columns.items()}, statement.origin)
    stacked = []
    for expr, column in join.keys:
        ours, array = compiler.compile(expr), read_column(table.column(column))
        kind = compared_type(ours.type, array.type, equality=True)
        if kind is None:
            both = f"{type_name(ours.type)} and {type_name(array.type)}"
            raise statement.origin.error(
                f"{both} ({join.name}.{column}) cannot be compared", place_of(expr), "Convert it with CAST."
            )
        rows = Env({"": array}, table.num_rows)
        other = convert(Operand(array.type, lambda env: env.columns[""]), kind).array(rows)
        stacked.append(pa.concat_arrays([convert(ours, kind).array(env), other]))
    codes = row_codes(stacked, [False] * len(stacked), records.rows + table.num_rows)
    mine, keys = codes[: records.rows], codes[records.rows :]
    usable = np.flatnonzero(keys >= 0)
    if len(np.unique(keys[usable])) < len(usable):
        columns = ", ".join(column for _, column in join.keys)
        raise DataError(
            f"has a key ({columns}) twice", where=f"lookup {join.name}", hint="Keep one row for each key."
        )
    place_of_code = np.full(int(codes.max(initial=-1)) + 1, -1, dtype=np.int64)
    place_of_code[keys[usable]] = usable
    found = np.full(records.rows, -1, dtype=np.int64)
    has = mine >= 0
    found[has] = place_of_code[mine[has]]
    return found
