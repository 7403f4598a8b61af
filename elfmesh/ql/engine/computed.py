"""Evaluation of the Python functions that a statement declares, before its expressions.

Each distinct call becomes a column beside the fields of the log, and the plan refers to that column. A call
is evaluated once per record, but not for records that WHERE drops in any case. A record for which a function
fails is excluded from all parts of the statement and counted in a bucket of its own (D-1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from elfmesh.errors import RuntimeFailure
from elfmesh.ql.engine.block import BlockRows
from elfmesh.ql.expressions.nodes import Expr, FieldRef, PythonCall, Scalar, rewrite, walk
from elfmesh.ql.expressions.operand import Env
from elfmesh.ql.expressions.operators import condition_operand
from elfmesh.ql.expressions.python_function import Computed, FunctionSource
from elfmesh.ql.expressions.registry import argument
from elfmesh.ql.functions.compiler import Compiler
from elfmesh.ql.plan.lookup_plan import conjuncts
from elfmesh.ql.plan.statement import LOOKED_UP, QueryPlan, Statement
from elfmesh.ql.values.columns import Bools, bool_values
from elfmesh.ql.values.joining import taken

_COLUMN = f"{LOOKED_UP}call."
"""Prefix of the columns of calls. No field of a log or a lookup table begins with it."""


class _Call(Struct, frozen=True):
    """Call of a function; nested calls are replaced by the columns of their values."""

    name: str
    call: PythonCall


class FunctionCalls:
    """Calls of Python functions in the parts of a statement."""

    def __init__(self, parts: Sequence[Statement], source: FunctionSource | None) -> None:
        self._source, self._origin = source, parts[0].origin
        self._names: dict[PythonCall, str] = {}
        self._of: list[list[_Call]] = []
        self._early: list[tuple[Expr, ...]] = []
        self.parts = tuple(self._plain(part) for part in parts)

    def _plain(self, part: Statement) -> Statement:
        mine: dict[str, _Call] = {}

        def column(node: Expr) -> Expr | None:
            if not isinstance(node, PythonCall):
                return None
            inner = node.with_children(tuple(rewrite(arg, column) for arg in node.args))
            assert isinstance(inner, PythonCall)
            name = self._names.setdefault(node, f"{_COLUMN}{len(self._names)}")
            mine.setdefault(name, _Call(name, inner))
            return FieldRef(name, True, at=node.at)

        def plain(expr: Expr) -> Expr:
            return rewrite(expr, column)

        self._early.append(tuple(each for each in conjuncts(part.plan.where) if _is_early(each)))
        plan = _rewritten(part.plan, plain)
        lookups = tuple(
            replace(join, keys=tuple((plain(expr), name) for expr, name in join.keys))
            for join in part.lookups
        )
        self._of.append(list(mine.values()))
        return replace(part, plan=plan, lookups=lookups, fields=(*part.fields, *mine))

    def evaluate(self, given: BlockRows, active: Sequence[int]) -> tuple[BlockRows, int]:
        """Return the records with the calls' values as columns, and the number of failed records."""
        calls = {call.name: call for index in active for call in self._of[index]}
        if not calls or all(given.column(name) is not None for name in calls):
            return given, 0
        if self._source is None:
            raise RuntimeFailure("Python functions cannot run here")
        fields = sorted({field for index in active for field in self.parts[index].fields} - {*calls})
        wanted = self._wanted(given, active, tuple(fields))
        rows = given if wanted.all() else given.selected(wanted)
        columns: dict[str, pa.Array] = {}
        failed = np.zeros(rows.rows, dtype=np.bool_)
        for call in calls.values():
            done = self._call(call, rows, tuple(fields), columns)
            columns[call.name] = done.values
            if done.failed is not None:
                failed |= done.failed
        if not wanted.all():
            places = np.where(wanted, np.cumsum(wanted) - 1, -1)
            columns = {name: taken(values, places) for name, values in columns.items()}
            whole = np.zeros(given.rows, dtype=np.bool_)
            whole[wanted] = failed
            failed = whole
        wider = given.beside(columns, fields)
        number = int(np.count_nonzero(failed))
        return (wider.selected(~failed) if number else wider), number

    def _call(
        self, call: _Call, rows: BlockRows, fields: tuple[str, ...], computed: Mapping[str, pa.Array]
    ) -> Computed:
        assert self._source is not None
        env = Env({**rows.env(fields).columns, **computed}, rows.rows)
        compiler = self._compiler(env)
        node, function = call.call, call.call.function
        args = [compiler.compile(arg) for arg in node.args]
        kinds = [kind for _, kind in function.takes]
        given = [argument(compiler, node, args, at, kind).array(env) for at, kind in enumerate(kinds)]
        return self._source.call(function, given, rows.rows)

    def _wanted(self, given: BlockRows, active: Sequence[int], fields: tuple[str, ...]) -> Bools:
        env = given.env(fields)
        compiler = self._compiler(env)
        wanted = np.zeros(given.rows, dtype=np.bool_)
        for index in active:
            passes = np.ones(given.rows, dtype=np.bool_)
            for condition in self._early[index]:
                operand = condition_operand(compiler, condition, compiler.compile(condition))
                passes &= bool_values(operand.array(env))
            wanted |= passes
        return wanted

    def _compiler(self, env: Env) -> Compiler:
        columns: Mapping[str, Any] = env.columns
        return Compiler({name: array.type for name, array in columns.items()}, self._origin)


def _is_early(condition: Expr) -> bool:
    return not any(
        isinstance(node, PythonCall | Scalar)
        or (isinstance(node, FieldRef) and node.path.startswith(LOOKED_UP))
        for node in walk(condition)
    )


def _rewritten(plan: QueryPlan, change: Any) -> QueryPlan:
    return replace(
        plan,
        where=None if plan.where is None else change(plan.where),
        keys=tuple(change(expr) for expr in plan.keys),
        values=tuple(change(expr) for expr in plan.values),
        distincts=tuple(
            replace(
                one,
                args=tuple(change(arg) for arg in one.args),
                where=None if one.where is None else change(one.where),
            )
            for one in plan.distincts
        ),
        seal=None if plan.seal is None else plan.seal.changed(change),
    )
