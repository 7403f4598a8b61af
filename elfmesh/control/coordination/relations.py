"""Rules for each class of relations and of expressions: order-sensitive steps of a plan, with their gates.

A step that is not confluent waits for a partition to be complete: the columns of its gate, and the
interval. A class without a rule counts as order-sensitive with an unknown gate, and the step names the
class. A test lists all classes.

Paper: Blazes VII (white box).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from elfmesh.ql.expressions.nodes import (
    Aggregate,
    Call,
    Duration,
    Expr,
    FieldRef,
    Lambda,
    Literal,
    Over,
    Parameter,
    PythonCall,
    Ref,
    Scalar,
    SealClause,
    Star,
    WindowBound,
    WindowCall,
    rewrite,
    walk,
)
from elfmesh.ql.expressions.plugin_functions import UNCONFLUENT
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.plan.relation import (
    WINDOW,
    Counted,
    Derived,
    Exploded,
    Framed,
    JoinRelation,
    OneRow,
    Prefixed,
    Ranked,
    Resampled,
    StatementPart,
    Union,
)
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.plan.render import text_of
from elfmesh.ql.plan.statement import Statement

INTERVAL = "interval"
CONFLUENT_JOINS = frozenset({"inner", "cross", "semi"})
IMPURE_MODULES = frozenset({"random", "secrets", "uuid", "time", "os", "socket", "threading", "subprocess"})
IMPURE_CALLS = frozenset({"hash", "id", "open", "input", "globals", "now", "utcnow", "today"})


Refuted = Mapping[PythonFunction, str]
"""Functions that failed their trial, with the proof."""

NOT_TRIED: Refuted = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class PlanStep:
    """Order-sensitive step of a plan; `gate` is None if it is unknown. `remedy` makes it confluent.

    `code` is that of the finding of `elf lint` about the step.
    """

    gate: frozenset[str] | None
    why: str
    at: TextPosition = NOWHERE
    remedy: str = ""
    code: str = ""


def gated(columns: Iterator[str] | tuple[str, ...] | list[str], why: str, at: TextPosition) -> PlanStep:
    """Return a step that waits for the partitions of these columns within an interval."""
    return PlanStep(frozenset((*columns, INTERVAL)), why, at)


# -- expressions

Purity = Callable[[Expr], PlanStep | None]


def _confluent(expr: Expr) -> PlanStep | None:
    return None


def _python(expr: Expr) -> PlanStep | None:
    assert isinstance(expr, PythonCall)
    if (columns := expr.function.ordered) is not None:
        why = f"the function {expr.function.name} is declared ORDERED READ"
        return PlanStep(frozenset(columns) or None, why, expr.at, "a function that is CONFLUENT READ")
    if (reason := impurity(expr.function)) is None:
        return None
    remedy = "compute the result from the arguments of the function alone"
    return PlanStep(None, f"the function {expr.function.name} {reason}", expr.at, remedy, "B006")


def _call(expr: Expr) -> PlanStep | None:
    assert isinstance(expr, Call)
    if (package := UNCONFLUENT.get(expr.name)) is None:
        return None
    why = f"the function {expr.name} of {package} does not declare the label CR"
    return PlanStep(None, why, expr.at, "a function whose result depends on its arguments alone")


def _scalar(expr: Expr) -> PlanStep | None:
    return gated((), "a scalar subquery needs all rows of the interval", expr.at)


def _over(expr: Expr) -> PlanStep | None:
    assert isinstance(expr, Over)
    return gated([text_of(each) for each in expr.partition], f"{text_of(expr)}", expr.at)


EXPRESSIONS: dict[type[Expr], Purity] = {
    **dict.fromkeys((FieldRef, Literal, Duration, Star, WindowCall, WindowBound, Ref), _confluent),
    **dict.fromkeys((Lambda, Parameter), _confluent),
    Aggregate: _confluent,  # the law of its state decides: see `statements`
    Call: _call,
    PythonCall: _python,
    Scalar: _scalar,
    Over: _over,
}


def expression_steps(expr: Expr | None) -> Iterator[PlanStep]:
    """Yield the order-sensitive steps of an expression."""
    for node in walk(expr) if expr is not None else ():
        rule = EXPRESSIONS.get(type(node))
        if rule is None:
            yield PlanStep(None, f"no rule for the expression class {type(node).__name__}", node.at)
        elif (step := rule(node)) is not None:
            yield step


def impurity(function: PythonFunction) -> str | None:
    """Return why the result of a Python function may depend on more than its arguments, if its text shows it.

    This finds what the text names. It does not prove that a function is confluent.
    """
    try:
        tree = ast.parse(function.source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return "cannot be parsed"
    return next((found for node in ast.walk(tree) if (found := _impure_node(node)) is not None), None)


def _impure_node(node: ast.AST) -> str | None:
    match node:
        case ast.Import(names=names):
            found = {each.name.split(".")[0] for each in names} & IMPURE_MODULES
            return f"imports {min(found)}" if found else None
        case ast.ImportFrom(module=str(module)) if module.split(".")[0] in IMPURE_MODULES:
            return f"imports {module}"
        case ast.Global() | ast.Nonlocal():
            return "changes a variable outside itself"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in IMPURE_CALLS:
            return f"calls {name}"
    return None


# -- relations

Parts = Sequence[Statement]


def relation_steps(relation: Relation | None, parts: Parts = ()) -> Iterator[PlanStep]:
    """Yield the order-sensitive steps of a relation over the rows of `parts`, and of all below it."""
    fresh = [relation] if relation is not None else []
    while fresh:
        each = fresh.pop()
        rule = RELATIONS.get(type(each))
        if rule is None:
            yield PlanStep(None, f"no rule for the relation class {type(each).__name__}", each.at)
        else:
            yield from rule(each, parts)
        fresh += sources(each)


def sources(relation: Relation) -> list[Relation]:
    """Return the relations directly below one."""
    match relation:
        case JoinRelation():
            return [relation.left, relation.right]
        case Union():
            return list(relation.sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded() | Counted() | Resampled():
            return [relation.source]
    return []


def _none(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    return iter(())


def _join(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, JoinRelation)
    yield from expression_steps(relation.residual)
    columns = [text_of(key.left) for key in relation.keys]
    if relation.nearest is not None:
        yield from (*expression_steps(relation.nearest.left), *expression_steps(relation.nearest.right))
        yield gated(columns, "a row of the ASOF join depends on the absence of nearer ones", relation.at)
        return
    if relation.kind in CONFLUENT_JOINS:
        return
    why = f"a row of the {relation.kind} join depends on the absence of others"
    yield gated(columns, why, relation.at)


def _ranked(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Ranked)
    for _, over in relation.functions:
        yield from expression_steps(_named(over, relation.source, parts))


def _framed(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Framed)
    yield from expression_steps(_named(relation.over, relation.source, parts))


def _named(expr: Expr, source: Relation, parts: Parts) -> Expr:
    """Return an expression with the text's names in place of those that the plan gives to columns."""
    match source:
        case Derived(statement=statement):
            plan = statement.plan
        case StatementPart(index=index) if index < len(parts):
            plan = parts[index].plan
        case _:
            return expr
    keys = {f"k{at}": key for at, key in enumerate(plan.keys)}
    made = {
        name: rewrite(value, lambda node: keys.get(node.name) if isinstance(node, Ref) else None)
        for name, value in plan.outputs
    }
    return rewrite(expr, lambda node: made.get(node.path) if isinstance(node, FieldRef) else None)


def _exploded(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Exploded)
    yield from expression_steps(relation.values)


def _counted(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Counted)
    columns = [text_of(key) for key in relation.groups]
    group = f"{', '.join(columns)} in" if columns else "the job in"
    why = f"a window of {relation.rows} records depends on the records of {group} all earlier intervals"
    yield gated(columns, why, relation.at)


def _resampled(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Resampled)
    yield gated((), "RESAMPLE adds a row where no record of the interval has one", relation.at)


def _derived(relation: Relation, parts: Parts) -> Iterator[PlanStep]:
    assert isinstance(relation, Derived)
    yield from input_steps(relation.statement)
    yield from plan_steps(relation.statement, relation.at)


RELATIONS: dict[type[Relation], Callable[[Relation, Parts], Iterator[PlanStep]]] = {
    **dict.fromkeys((StatementPart, OneRow, Prefixed, Union), _none),
    JoinRelation: _join,
    Ranked: _ranked,
    Framed: _framed,
    Exploded: _exploded,
    Counted: _counted,
    Resampled: _resampled,
    Derived: _derived,
}


def plan_steps(statement: Statement, at: TextPosition = NOWHERE) -> Iterator[PlanStep]:
    """Yield the order-sensitive steps of a SELECT: its groups, LIMIT, and those of its expressions."""
    plan = statement.plan
    keys = [text_of(key) for key in plan.keys if key != FieldRef(WINDOW, True)]
    if plan.seal is not None:
        sealed = ", ".join(sealed_keys(plan.seal))
        yield PlanStep(frozenset(keys), f"rows of {', '.join(keys)} need all records of their {sealed}", at)
    elif not plan.repeat:
        yield gated(keys, f"rows of {', '.join(keys) or 'all records'} need all records of their group", at)
    if plan.limit is not None or plan.offset:
        place = next((item.expr.at for item in plan.order if item.expr.at != NOWHERE), at)
        yield gated((), f"LIMIT {plan.limit} may drop a row when others arrive", place)
    for expr in (plan.having, *(each for _, each in plan.outputs)):
        yield from expression_steps(expr)


def sealed_keys(seal: SealClause) -> list[str]:
    """Return the keys of partitions as the text of their expressions."""
    return [text_of(key) for key in seal.keys]


def input_steps(statement: Statement, refuted: Refuted = NOT_TRIED) -> Iterator[PlanStep]:
    """Yield the steps of the expressions that are evaluated over each input record."""
    for expr in _over_records(statement):
        yield from expression_steps(expr)
        for node in walk(expr) if refuted else ():
            if isinstance(node, PythonCall) and node.function in refuted:
                why = f"the function {node.function.name} failed its trial: {refuted[node.function]}"
                yield PlanStep(None, why, node.at, "declare it ORDERED READ, or correct it", "B005")


def _over_records(statement: Statement) -> Iterator[Expr]:
    plan = statement.plan
    punctuations = () if plan.seal is None else plan.seal.values
    for expr in (plan.where, *plan.keys, *plan.values, *punctuations):
        if expr is not None:
            yield expr
    for each in plan.distincts:
        yield from (expr for expr in (*each.args, each.where) if expr is not None)
    for join in statement.lookups:
        yield from (key for key, _ in join.keys)
