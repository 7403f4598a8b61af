"""Joins of lookup tables to the streams of a SELECT.

A lookup table is available at each agent, so it is joined where records are read: to one stream, by equality
of its columns and fields of that stream. Inside a part its columns are the fields `LOOKED_UP + alias.column`;
above the part they are called `alias.column`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Scalar, rewrite, walk
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.draft_types import LookupRead, SelectDraft, StreamRead
from elfmesh.ql.plan.relation import JoinKey
from elfmesh.ql.plan.scope import Input
from elfmesh.ql.plan.selection import Select
from elfmesh.ql.plan.statement import LOOKED_UP, LookupJoin, OrderItem

HINT = "Write FROM stream s [LEFT] JOIN lookup.name t ON s.field = t.column."


class LookupPlan:
    """Lookup tables of one SELECT; `others` are the positions of its other inputs."""

    def __init__(self, origin: SourceText, draft: SelectDraft) -> None:
        self._origin, self._draft = origin, draft
        reads = draft.reads
        self.others = [at for at, read in enumerate(reads) if not isinstance(read, LookupRead)]
        self._joins: dict[int, list[LookupJoin]] = {}
        for at, read in enumerate(reads):
            if isinstance(read, LookupRead):
                owner_at, join = self._join(at, read)
                self._joins.setdefault(owner_at, []).append(join)

    def of(self, at: int) -> tuple[LookupJoin, ...]:
        return tuple(self._joins.get(at, ()))

    def columns(self, at: int) -> tuple[str, ...]:
        return tuple(f"{LOOKED_UP}{join.alias}.{column}" for join in self.of(at) for column in join.columns)

    def own_names(self, at: int, select: Select) -> Select:
        def change(node: Expr) -> Expr | None:
            return self._own(node, at) if isinstance(node, FieldRef) else None

        def own(expr: Expr) -> Expr:
            return rewrite(expr, change)

        return replace(
            select,
            items=[(name, own(expr)) for name, expr in select.items],
            where=None if select.where is None else own(select.where),
            group=None if select.group is None else [own(expr) for expr in select.group],
            having=None if select.having is None else own(select.having),
            order=[OrderItem(own(item.expr), item.descending, item.nulls_first) for item in select.order],
        )

    def _own(self, field: FieldRef, at: int) -> FieldRef:
        inputs = self._draft.scope.inputs
        one = owner(field.path, inputs)
        if one is None:
            return field  # it is an alias
        if one is inputs[at]:
            return FieldRef(field.path.removeprefix(f"{one.name}."), True, at=field.at)
        return FieldRef(f"{LOOKED_UP}{field.path}", True, at=field.at)

    def _join(self, at: int, read: LookupRead) -> tuple[int, LookupJoin]:
        draft, one = self._draft, self._draft.scope.inputs[at]
        if at == 0:
            raise self._error(
                one, "a lookup table must come after JOIN", "Write FROM stream JOIN lookup.name ON ..."
            )
        join = draft.joins[at - 1]
        if join.asof:
            raise self._error(
                one, "a lookup table has no ASOF JOIN", "Its rows have no order: write JOIN ... ON."
            )
        if join.kind not in ("inner", "left"):
            raise self._error(
                one,
                f"{join.kind.upper()} JOIN with a lookup table is not supported",
                "Write JOIN or LEFT JOIN.",
            )
        keys: list[tuple[Expr, str]] = []
        owners: set[int] = set()
        for condition in conjuncts(join.on):
            key = self._key(condition, one)
            if key is None:
                raise self._error(
                    one,
                    "a lookup table is joined by equations with fields of one stream",
                    "Write ON stream.field = table.column.",
                )
            expr, column = key
            owners |= {self._place_of(node.path) for node in walk(expr) if isinstance(node, FieldRef)}
            keys.append((rewrite(expr, self._stripped), column))
        if len(owners) != 1 or not isinstance(draft.reads[min(owners)], StreamRead):
            raise self._error(
                one,
                "a lookup table is joined to one stream, where it is read",
                "Join it to one stream in a subquery.",
            )
        (owner_at,) = owners
        filled = owner_at > 0 and draft.joins[owner_at - 1].kind != "inner"
        filled = filled or any(each.kind in ("right", "full") for each in draft.joins)
        if filled and join.kind == "inner":
            raise self._error(
                one, "a lookup table cannot be joined to the optional side of an outer join",
                "Write LEFT JOIN lookup..., or join it in a subquery.",
            )  # fmt: skip
        columns = tuple(sorted({*one.used, *(column for _, column in keys)}))
        return owner_at, LookupJoin(read.name, one.name, columns, tuple(keys), join.kind == "inner")

    def _key(self, condition: Expr, one: Input) -> tuple[Expr, str] | None:
        if not isinstance(condition, Call) or condition.name != "=":
            return None
        for mine, other in (condition.args, condition.args[::-1]):
            outside = {node.path for node in walk(other) if isinstance(node, FieldRef)}
            if (
                isinstance(mine, FieldRef)
                and owner(mine.path, self._draft.scope.inputs) is one
                and outside
                and all(owner(path, self._draft.scope.inputs) is not one for path in outside)
            ):
                return other, mine.path.removeprefix(f"{one.name}.")
        return None

    def _place_of(self, path: str) -> int:
        one = owner(path, self._draft.scope.inputs)
        return next((at for at, each in enumerate(self._draft.scope.inputs) if each is one), 0)

    def _stripped(self, node: Expr) -> Expr | None:
        return self._own(node, self._place_of(node.path)) if isinstance(node, FieldRef) else None

    def _error(self, one: Input, message: str, hint: str = HINT) -> QueryError:
        return self._origin.error(message, one.at, hint)


def named(select: Select, columns: Sequence[str]) -> Select:
    items: list[tuple[str | None, Expr]] = [
        (name, expr) for name, (_, expr) in zip(columns, select.items, strict=True)
    ]
    return replace(select, items=items)


def key_fields(lookups: Iterable[LookupJoin]) -> set[str]:
    exprs = (expr for join in lookups for expr, _ in join.keys)
    return {node.path for expr in exprs for node in walk(expr) if isinstance(node, FieldRef)}


def owner(path: str, inputs: Sequence[Input]) -> Input | None:
    """Return the input of a column in a join; the longest matching name wins."""
    fitting = [one for one in inputs if path.startswith(f"{one.name}.")]
    return max(fitting, key=lambda one: len(one.name), default=None)


def conjuncts(expr: Expr | None) -> list[Expr]:
    if isinstance(expr, Call) and expr.name == "and":
        return [each for arg in expr.args for each in conjuncts(arg)]
    return [] if expr is None else [expr]


def all_of(conditions: Sequence[Expr]) -> Expr | None:
    joined: Expr | None = None
    for condition in conditions:
        joined = condition if joined is None else Call("and", (joined, condition), at=condition.at)
    return joined


def join_key(condition: Expr, left: set[str], right: set[str]) -> JoinKey | None:
    """Return an equation of one expression of each side, by the columns of both; None: it is none."""
    if not isinstance(condition, Call) or condition.name not in ("=", "<=>", "in"):
        return None
    used = [{node.path for node in walk(arg) if isinstance(node, FieldRef)} for arg in condition.args]
    if len(used) != 2 or any(isinstance(node, Scalar) for node in walk(condition)) or not all(used):
        return None
    first, second = condition.args
    if used[0] <= right and used[1] <= left:
        used.reverse()
        first, second = second, first
    if used[0] <= left and used[1] <= right:
        return JoinKey(first, second, condition.name == "<=>", condition.name == "in")
    return None
