"""Directions: how the value of an expression changes while a window receives records.

Owns the directions of expressions over a group, the conditions that only become true (rising conditions), and
the local thresholds from which an agent reports a group. Decides whether a job may have EARLY, and raises
QueryError otherwise. A rule of the language: it evaluates nothing.

A value begins as null and does not become null again. Null is below all values of a rising expression and
above those of a falling one, because a condition that is null keeps no row.

Paper: Blazes IV-A (confluent paths; a threshold is one). Local thresholds: Cormode et al., SIGMOD 2006.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from elfmesh.ql.expressions.assumption import AssumedBound, Assumption
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal, Ref, WindowBound, rewrite
from elfmesh.ql.plan.statement import Statement

FACTOR_MAX = 1 << 20
"""Greatest factor of a count: the product of a count below 2**43 and it does not overflow."""

LOCAL_SHARE = 4
"""Part of a threshold that the groups below the local thresholds of all agents may together hide."""


class Direction(Enum):
    """Direction of a value while records are added to its group."""

    RISING = "rises"
    FALLING = "falls"
    CONSTANT = "is constant"
    UNKNOWN = "may rise and fall"

    @property
    def reverse(self) -> Direction:
        return _REVERSE.get(self, self)

    def beside(self, other: Direction) -> Direction:
        """Return the direction of a value to which both contribute."""
        if self is other or other is Direction.CONSTANT:
            return self
        return other if self is Direction.CONSTANT else Direction.UNKNOWN


_REVERSE = {Direction.RISING: Direction.FALLING, Direction.FALLING: Direction.RISING}
_COMPARISONS = (">=", ">", "<=", "<")
_OPPOSITE = {">=": "<", "<": ">=", ">": "<=", "<=": ">", "and": "or", "or": "and"}
_ROUNDED = ("round", "bround", "floor", "ceil", "ceiling")
_CHOICES = ("case", "if", "iff", "coalesce", "nvl", "ifnull")
_NOT_NEGATIVE = ("length", "char_length", "character_length", "octet_length", "bit_length", "abs")


class Course(Struct, frozen=True):
    """What is known of a value over the records of a group.

    Attributes:
        direction: how it changes.
        counts: made of counts below 2**43 and small constants, so that arithmetic does not overflow.
        least: a value that it is never below; None: unknown.
        adds: the value of all agents together is at most the sum of those of each agent.
        whole: it grows by 1 or more.
        extreme: the value of all agents together is that of one agent.
    """

    direction: Direction
    counts: bool = False
    least: float | None = None
    adds: bool = False
    whole: bool = False
    extreme: bool = False


UNKNOWN = Course(Direction.UNKNOWN)
CONSTANT = Course(Direction.CONSTANT)
_COUNT = Course(Direction.RISING, counts=True, least=0, adds=True, whole=True)
_EXTREMES = {
    "max": Course(Direction.RISING, extreme=True),
    "min": Course(Direction.FALLING, extreme=True),
}


def course(expr: Expr, statement: Statement) -> Course:
    """Return the course of an expression over the reduced columns of a statement over one stream."""
    match expr:
        case Literal():
            value = expr.value
            if isinstance(value, bool) or not isinstance(value, int | float):
                return CONSTANT
            return Course(Direction.CONSTANT, counts=abs(value) <= FACTOR_MAX, least=float(value))
        case WindowBound():
            return CONSTANT
        case Ref():
            return _of_column(expr.name, statement)
        case Call(name="hll count" | "hll registers"):
            return _COUNT
        case Call(name="size" | "cardinality" | "array_size", args=(Ref() as given,)):
            kind, _ = statement.tables[0].aggregates.get(given.name, ("", None))
            return replace(_COUNT, least=-1) if kind == "set" else UNKNOWN
        case Call():
            return _of_call(expr, [course(each, statement) for each in expr.args])
    return UNKNOWN


def _of_column(name: str, statement: Statement) -> Course:
    if name in statement.tables[0].keys:
        return CONSTANT
    if any(name == one.name for one in statement.plan.distincts):
        return _COUNT
    kind, column = statement.tables[0].aggregates.get(name, ("", None))
    if kind == "count":
        return _COUNT
    if kind == "sum" and isinstance(column, str):
        value = statement.plan.values[int(column[1:])]
        if is_not_negative(value, statement.assumes):
            return Course(Direction.RISING, least=0, adds=True)
        falls = _is_bounded(value, statement.assumes, upper=True)
        return Course(Direction.FALLING) if falls else UNKNOWN
    return _EXTREMES.get(kind, UNKNOWN)


def _of_call(call: Call, args: list[Course]) -> Course:
    if args and all(each.direction is Direction.CONSTANT for each in args):
        return CONSTANT
    if call.name in ("and", "or", "not", *_COMPARISONS):
        return Course(_of_condition(call, args))
    first = args[0] if args else UNKNOWN
    counts = bool(args) and all(each.counts for each in args)
    match call.name:
        case "neg":
            return Course(first.direction.reverse, first.counts, extreme=first.extreme)
        case "+" | "-" if len(args) == 2 and counts:
            other = args[1].direction if call.name == "+" else args[1].direction.reverse
            sums = call.name == "+" and first.adds and args[1].adds
            least = 0 if sums and first.least == args[1].least == 0 else None
            return Course(first.direction.beside(other), counts=True, least=least, adds=sums, whole=sums)
        case "*" | "/" if len(args) == 2 and (scale := _scale(call)):
            of = first if isinstance(call.args[1], Literal) else args[1]
            if call.name == "*" and not of.counts:
                return UNKNOWN  # the product may overflow, and is null then
            if scale < 0:
                return Course(of.direction.reverse, of.counts, extreme=of.extreme)
            grows = of.whole and call.name == "*" and scale >= 1
            return replace(of, whole=grows, least=None if of.least is None else min(of.least, 0))
        case name if name in _ROUNDED and counts:
            fixed = all(each.direction is Direction.CONSTANT for each in args[1:])
            return Course(first.direction, counts=True) if fixed else UNKNOWN
        case "coalesce" | "nvl" | "ifnull" if len(args) == 2 and isinstance(call.args[1], Literal):
            rest = args[1].least
            fits = first.least is not None and rest is not None and rest <= first.least
            return first if fits and first.direction is Direction.RISING else UNKNOWN
    return UNKNOWN


def _scale(call: Call) -> float:
    """Return the constant by which a value is multiplied or divided; 0 if there is none that is allowed."""
    left, right = call.args
    given = right if isinstance(right, Literal) or call.name == "/" else left
    value = given.value if isinstance(given, Literal) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or abs(value) > FACTOR_MAX:
        return 0
    return value


def _of_condition(call: Call, args: list[Course]) -> Direction:
    """Return RISING for a condition that stays true once it is, FALLING for one that stays false."""
    if call.name == "not":
        return args[0].direction.reverse
    if call.name in ("and", "or"):
        found = args[0].direction
        for each in args[1:]:
            found = found.beside(each.direction)
        return found
    left, right = args
    difference = left.direction.beside(right.direction.reverse)
    return difference if call.name in (">=", ">") else difference.reverse


def is_not_negative(value: Expr, assumes: Sequence[Assumption] = ()) -> bool:
    """Return whether a value of a record is never below 0, whatever the record is, under assumptions."""
    match value:
        case FieldRef():
            return _is_bounded(value, assumes)
        case Literal():
            return value.kind == "null" or (value.kind in ("bigint", "double") and not _below_zero(value))
        case Call(name="sum input" | "event time", args=(inner,)):
            return is_not_negative(inner, assumes)
        case Call(name=name, args=args) if name in _CHOICES:
            return all(is_not_negative(each, assumes) for each in _results(name, args))
        case Call(name=name):
            return name in _NOT_NEGATIVE
    return False


def _is_bounded(value: Expr, assumes: Sequence[Assumption], *, upper: bool = False) -> bool:
    """Return whether a field is assumed to be never below 0; with `upper`, never above it."""
    match value:
        case Call(name="sum input", args=(inner,)):
            return _is_bounded(inner, assumes, upper=upper)
        case FieldRef():
            return any(
                isinstance(each, AssumedBound)
                and (each.column, each.upper) == (value.path, upper)
                and (each.limit <= 0 if upper else each.limit >= 0)
                for each in assumes
            )
    return False


def _below_zero(value: Literal) -> bool:
    return isinstance(value.value, int | float) and value.value < 0


def _results(name: str, args: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """Return the values among which a choice chooses, without its conditions."""
    if name in ("if", "iff"):
        return args[1:]
    if name != "case":
        return args
    return (*args[1::2], *(args[-1:] if len(args) % 2 else ()))


def early_having(statement: Statement) -> Expr | None:
    """Return HAVING as it decides about early rows: approximate counts of registers alone.

    An estimate may fall when coupons become registers; over registers it does not.
    """

    def change(node: Expr) -> Expr | None:
        is_count = isinstance(node, Call) and node.name == "hll count"
        return Call("hll registers", node.children, at=node.at) if is_count else None

    having = statement.plan.having
    return None if having is None else rewrite(having, change)


def local_having(statement: Statement, members: int) -> Expr | None:
    """Return the condition under which an agent reports a group; None: after each change.

    The values that `members` agents do not report sum to less than a quarter of each threshold.
    """
    having = statement.plan.having
    return None if having is None else _local(_without_not(having), statement, max(1, members))


def _without_not(condition: Expr) -> Expr:
    """Return a condition with NOT before its smallest parts only, and before no comparison."""
    if isinstance(condition, Call) and condition.name in ("and", "or"):
        return replace(condition, args=tuple(map(_without_not, condition.args)))
    if not (isinstance(condition, Call) and condition.name == "not"):
        return condition
    (inner,) = condition.args
    if isinstance(inner, Call) and inner.name in _OPPOSITE:
        name, args = _OPPOSITE[inner.name], inner.args
        if name in ("and", "or"):
            args = tuple(_without_not(Call("not", (each,))) for each in args)
        return Call(name, args, at=inner.at)
    return _without_not(inner.args[0]) if isinstance(inner, Call) and inner.name == "not" else condition


def _local(condition: Expr, statement: Statement, members: int) -> Expr | None:
    if course(condition, statement).direction is Direction.CONSTANT:
        return condition
    if isinstance(condition, Call) and condition.name in ("and", "or"):
        return _local_of_parts(condition, statement, members)
    if isinstance(condition, Call) and condition.name in _COMPARISONS:
        return _local_comparison(condition, statement, members)
    one = condition.args[0] if isinstance(condition, Call) and condition.name == "not" else condition
    return condition if course(one, statement).extreme else None


def _local_of_parts(condition: Call, statement: Statement, members: int) -> Expr | None:
    """Join the local conditions of parts by OR, because the master needs the values of each part."""
    fixed, moving = list[Expr](), list[Expr | None]()
    for each in condition.args:
        if course(each, statement).direction is Direction.CONSTANT:
            fixed.append(each)
        else:
            moving.append(_local(each, statement, members))
    reached: Expr = Literal("bool", True)
    known = [each for each in moving if each is not None]
    if known and len(known) == len(moving):
        reached = known[0]
        for each in known[1:]:
            reached = Call("or", (reached, each))
    for each in fixed:
        reached = Call(condition.name, (reached, each))
    return None if reached == Literal("bool", True) else reached


def _local_comparison(condition: Call, statement: Statement, members: int) -> Expr | None:
    left, right = (course(each, statement) for each in condition.args)
    at = 1 if right.direction is Direction.CONSTANT else 0
    value, limit = condition.args[1 - at], condition.args[at]
    side = (left, right)[1 - at]
    if (right, left)[1 - at].direction is not Direction.CONSTANT:
        return None
    if side.extreme:
        return condition
    number = limit.value if isinstance(limit, Literal) and limit.kind in ("bigint", "double") else None
    if not side.adds or not isinstance(number, int | float) or number <= 0:
        return None
    whole = side.whole and isinstance(number, int)
    share: int | float = number / (LOCAL_SHARE * members)
    if whole:
        share = max(1, int(number) // (LOCAL_SHARE * members))
    return Call(">=", (value, Literal("bigint" if whole else "double", share)))
