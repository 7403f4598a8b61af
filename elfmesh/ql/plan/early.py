"""EARLY: whether rows of an open window can be emitted at once, because no further record removes them.

Owns the refusals, each with the offending part and the remedy, and the directions of the columns of such a
row. `directions` has the rules for expressions.

Paper: Blazes III (confluent components need no coordination).
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Ref, place_of, walk
from elfmesh.ql.expressions.text_source import SourceText, TextPosition
from elfmesh.ql.plan.directions import Direction, course
from elfmesh.ql.plan.relation import Derived, Framed, JoinRelation, Ranked, Resampled, StatementPart, Union
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.statement import RESULT, Statement

EARLY = "EARLY"
PERIOD_US_MIN = 50_000
"""Shortest period of early rows, because each member sends a message in each period."""


class EarlyRefused(QueryError):
    """EARLY on a statement whose rows may be removed again."""


_LIMITS = (TokenType.LIMIT, TokenType.OFFSET)
_WRITE = "Write rising conditions: count(*) >= 100, max(x) > 5, min(x) <= 1, joined by AND or OR."
_SHAPED = ("kll", "kllmerge", "frequent", "top")
_KINDS = {
    "sum": ("sum(x) falls if x is negative", "Write sum(abs(x)), sum(length(x)) or ASSUME (x >= 0)."),
    "first": ("the first value may be replaced", _WRITE),
    "last": ("the last value is replaced by later records", _WRITE),
    "variance": ("a variance may rise and fall", _WRITE),
    "covariance": ("a covariance may rise and fall", _WRITE),
    "kll": ("an approximate percentile may rise and fall", "Write count_if(x > 5) >= 100."),
    "theta": ("a theta sketch may rise and fall", "Write approx_count_distinct(x) >= 100."),
    "top": ("a value may leave the most frequent ones", _WRITE),
}


def check_early(statement: Statement, tokens: Sequence[Token], at: int) -> None:
    """Raise EarlyRefused unless no record removes a row of a window.

    Args:
        statement: a job.
        tokens: tokens of its query.
        at: offset of EARLY in the text.
    """
    origin = statement.origin
    for token in tokens:
        if token.token_type in _LIMITS:
            hint = "Leave it out, or leave EARLY out."
            raise _refused(origin, token.start, f"{token.text.upper()} may drop a row again", hint)
    window = statement.window
    if window is not None and window.is_session:
        start = next((each.start for each in tokens if "SESSION" in each.text.upper()), at)
        raise _refused(origin, start, "a later record may join two sessions", "Write TUMBLE or HOP.")
    if statement.relation is not None and not _is_union_all(statement.relation):
        over = next((each.start for each in tokens if each.token_type == TokenType.OVER), at)
        _refuse_relation(origin, statement.relation, over)
    if any(RESULT in stream for stream in statement.streams):
        hint = "Write EARLY in the job that is read."
        raise _refused(origin, at, "a job that reads results has no open windows", hint)
    own = {table.name for table in statement.job.tables} if statement.job is not None else set[str]()
    for join in statement.joined:
        if join.name not in own:
            hint = f"Write TABLE {join.name} (...) in the job, and fill it with `elf publish`."
            raise _refused(origin, at, f"the file of the lookup table {join.name} may change", hint)
    if statement.plan.seal is not None:
        _check_sealed(statement, tokens, at)
        return
    for part in early_parts(statement):
        _check_having(origin, part)


def _check_sealed(statement: Statement, tokens: Sequence[Token], at: int) -> None:
    """Raise EarlyRefused unless a partition with all its seals has its final rows, whatever HAVING is.

    The number of records shows that none is missing, for example one that another agent has read.
    """
    origin, plan = statement.origin, statement.plan
    assert plan.seal is not None
    if plan.seal.records is None:
        why = "without RECORDS, a partition may have records that no agent has reported"
        raise _refused(
            origin,
            place_of(plan.seal.when),
            why,
            "Write RECORDS n, a field with the number of the key's records.",
        )
    if plan.distinct:
        start = next((each.start for each in tokens if each.token_type == TokenType.DISTINCT), at)
        raise _refused(origin, start, "DISTINCT compares the rows of partitions", "Leave DISTINCT out.")
    having = plan.having
    if having is not None and (
        found := next((each for each in walk(having) if _is_shaped(statement, each)), None)
    ):
        why, hint = _reason(statement, found) or ("it depends on the shape of the tree", _WRITE)
        raise _refused(origin, place_of(having), why, hint)


def _is_shaped(statement: Statement, node: Expr) -> bool:
    """Return whether a value depends on the tree in which the agents' states were merged."""
    if not isinstance(node, Ref):
        return False
    kind, _ = statement.tables[0].aggregates.get(node.name, ("", None))
    return kind.partition(":")[0] in _SHAPED


def _check_having(origin: SourceText, part: Statement) -> None:
    having = part.plan.having
    if having is not None and (found := _offending(part, having, Direction.RISING)) is not None:
        reasons = (_reason(part, node) for node in walk(found))
        why, hint = next(filter(None, reasons), ("this condition may become false again", _WRITE))
        if course(found, part).direction is not Direction.UNKNOWN:
            why, hint = "a further record may make this condition false", _WRITE
        raise _refused(origin, place_of(found), why, hint)


def _offending(part: Statement, condition: Expr, wanted: Direction) -> Expr | None:
    """Return the first of the smallest parts of a condition that is neither constant nor as wanted."""
    if isinstance(condition, Call) and condition.name in ("and", "or", "not"):
        inside = wanted.reverse if condition.name == "not" else wanted
        found = (_offending(part, each, inside) for each in condition.args)
        return next((each for each in found if each is not None), None)
    return None if course(condition, part).direction in (wanted, Direction.CONSTANT) else condition


def gains_by_early(statement: Statement) -> bool:
    """Return whether EARLY is possible, and for more than lower bounds: rows of HAVING or single records."""
    parts = early_parts(statement)
    limited = any(each.plan.limit is not None or each.plan.offset for each in (statement, *parts))
    bounds = any(part.plan.having is None and not part.plan.repeat for part in parts)
    if limited or statement.spans_intervals or bounds:
        return False
    try:
        check_early(statement, (), statement.offset)
    except EarlyRefused:
        return False
    return True


def early_parts(statement: Statement) -> tuple[Statement, ...]:
    """Return the parts of a statement with EARLY that have its groups; several are the sides of UNION ALL."""
    return statement.over_records


def _is_union_all(relation: Relation) -> bool:
    """Return whether the root passes the rows of each part once, as they are."""
    if not isinstance(relation, Derived):
        return isinstance(relation, StatementPart)
    plan, source = relation.statement.plan, relation.source
    if not isinstance(source, Union) or not all(isinstance(each, StatementPart) for each in source.sources):
        return False
    shown = [expr.name for _, expr in plan.outputs if isinstance(expr, Ref)]
    columns = [key.path for key in plan.keys if isinstance(key, FieldRef)]
    unchanged = shown == [f"k{at}" for at in range(len(plan.outputs))] and columns == list(source.columns)
    return unchanged and not plan.distinct and plan.where is None and plan.having is None


def _refused(origin: SourceText, at: int | TextPosition, why: str, hint: str) -> EarlyRefused:
    error = origin.error(f"EARLY is impossible here: {why}", at, hint)
    return EarlyRefused(
        error.message, line=error.line, column=error.column, hint=error.hint, source=error.source
    )


_STEPS = (JoinRelation, Ranked, Framed, Union, Resampled)


def _refuse_relation(origin: SourceText, relation: Relation, at: int) -> None:
    """Raise QueryError for the innermost step of the root that is neither a projection nor UNION ALL."""
    found, each = relation, relation
    while True:
        found = each if not isinstance(found, _STEPS) else found
        below = getattr(each, "source", None)
        if below is None:
            break
        each = below
    place = found.at if found.at.line and not isinstance(found, Ranked | Framed) else origin.place(at)
    match found:
        case JoinRelation():
            why = "a join of streams waits for both sides"
            hint = "Join a TABLE of the text, or read the results of an EARLY job in a second job."
        case Ranked() | Framed():
            why, hint = "OVER compares a row with later ones", "Compute it in a job that reads this one."
        case Resampled():
            why, hint = (
                "RESAMPLE fills gaps that later records close",
                "Resample in a job that reads this one.",
            )
        case Union():
            why, hint = "the root combines the rows of several queries", "Write UNION ALL at the end."
        case _:
            why, hint = "the root computes these rows from those of a subquery", "Write one SELECT."
    raise _refused(origin, place, why, hint)


def _reason(statement: Statement, node: Expr) -> tuple[str, str] | None:
    if isinstance(node, Call) and node.name == "average":
        return "avg may rise and fall", "Write count(*) and sum(x) beside it, and compare them in the reader."
    if not isinstance(node, Ref):
        return None
    if any(node.name == fold.name for fold in statement.plan.folds):
        return "a percentile or a most frequent value may rise and fall", "Write count_if(x > 5) >= 100."
    kind, _ = statement.tables[0].aggregates.get(node.name, ("", None))
    is_sum = kind == "sum" and course(node, statement).direction is Direction.UNKNOWN
    return _KINDS.get(kind.partition(":")[0]) if kind != "sum" or is_sum else None


def columns_by_direction(statement: Statement) -> dict[str, Direction]:
    """Return the direction of each column of the rows of a job with EARLY; that of all sides of UNION ALL.

    Rows of SEALED are emitted when their partition is complete.
    """
    if statement.plan.seal is not None:
        return {
            name: Direction.UNKNOWN
            if any(_is_shaped(statement, node) for node in walk(expr))
            else Direction.CONSTANT
            for name, expr in statement.plan.outputs
        }
    sides = [
        [course(expr, part).direction for _, expr in part.plan.outputs] for part in early_parts(statement)
    ]
    of_all = (functools.reduce(Direction.beside, each) for each in zip(*sides, strict=True))
    return dict(zip(statement.columns, of_all, strict=True))


def stable_columns(statement: Statement) -> tuple[str, ...]:
    """Return the columns that an early row and its final row have in common."""
    return tuple(name for name, each in columns_by_direction(statement).items() if each is Direction.CONSTANT)


def growing_columns(statement: Statement) -> tuple[str, ...]:
    """Return the columns of which an early row has a lower bound."""
    return tuple(name for name, each in columns_by_direction(statement).items() if each is Direction.RISING)
