"""Every class of relations and expressions has a rule; one without a rule is order-sensitive, by name."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import Any

import pytest

import elfmesh.ql
from elfmesh.control.coordination.relations import (
    EXPRESSIONS,
    RELATIONS,
    expression_steps,
    impurity,
    relation_steps,
)
from elfmesh.ql import parse
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.text_source import NOWHERE
from elfmesh.ql.plan.relation_base import Relation
from elfmesh.ql.values.types import STRING
from tests.control.coordination.test_statements import gates


def names_of(base: type) -> set[str]:
    """All subclasses in the package, also those of modules that nothing has imported yet."""
    for module in pkgutil.walk_packages(elfmesh.ql.__path__, "elfmesh.ql."):
        importlib.import_module(module.name)
    found: set[str] = set()
    fresh: list[Any] = [base]
    while fresh:
        for each in fresh.pop().__subclasses__():
            fresh.append(each)
            if each.__module__.startswith("elfmesh."):
                found.add(f"{each.__module__}.{each.__qualname__}")
    return found


def names(classes: Iterable[type]) -> set[str]:
    return {f"{each.__module__}.{each.__qualname__}" for each in classes}


def test_every_class_of_relations_has_a_rule() -> None:
    assert names_of(Relation) == names(RELATIONS)


def test_every_class_of_expressions_has_a_rule() -> None:
    assert names_of(Expr) == names(EXPRESSIONS)


class NewRelation(Relation, frozen=True):
    """A relation that was added without a rule."""


class NewExpr(Expr, frozen=True):
    """An expression that was added without a rule."""


def test_a_class_without_a_rule_is_order_sensitive_by_name() -> None:
    (step,) = relation_steps(NewRelation((), NOWHERE))
    assert (step.gate, step.why) == (None, "no rule for the relation class NewRelation")
    (step,) = expression_steps(Call("+", (NewExpr(), FieldRef("a"))))
    assert (step.gate, step.why) == (None, "no rule for the expression class NewExpr")


SIDES = """FROM (SELECT u, count(*) k FROM x GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) a
  {} JOIN (SELECT u, sum(n) n FROM y GROUP BY TUMBLE(ts, INTERVAL '1' MINUTE), u) b ON a.u = b.u"""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT a.u, b.n " + SIDES.format(""), []),
        ("SELECT a.u " + SIDES.format("LEFT SEMI"), []),
        ("SELECT a.u, b.n " + SIDES.format("LEFT"), [{"a.u", "interval"}]),
        ("SELECT u FROM x UNION ALL SELECT u FROM y", []),
        ("SELECT DISTINCT u FROM x WHERE n > 3", []),
        (
            "SELECT u, e FROM (SELECT u, collect_set(n) AS s FROM x GROUP BY u) "
            "LATERAL VIEW explode(s) t AS e",
            [],
        ),
        ("SELECT u FROM (SELECT u, count(*) AS n FROM x GROUP BY u) WHERE n > 3", []),
        ("SELECT u FROM x WHERE u NOT IN (SELECT u FROM y)", [{"interval"}]),
        ("SELECT u FROM x WHERE NOT EXISTS (SELECT 1 FROM y WHERE y.u = x.u)", [{"u", "interval"}]),
        ("SELECT x.u FROM x JOIN y ON x.u = y.u WITHIN '5 s'", []),
        ("SELECT x.u FROM x LEFT JOIN y ON x.u = y.u WITHIN '5 s'", [{"x.u", "interval"}]),
        ("SELECT u, count(*) AS n FROM x GROUP BY ROWS(3), u", [{"u", "interval"}] * 2),
        ("SELECT a.u, b.n " + SIDES.format("FULL"), [{"a.u", "interval"}]),
        ("SELECT a.u " + SIDES.format("LEFT ANTI"), [{"a.u", "interval"}]),
        ("SELECT u, rank() OVER (PARTITION BY v ORDER BY ts) r FROM x", [{"v", "interval"}]),
        ("SELECT u, sum(n) OVER (PARTITION BY v ORDER BY ts ROWS 2 PRECEDING) r FROM x", [{"v", "interval"}]),
        (
            "SELECT u, rank() OVER (PARTITION BY v ORDER BY n) r "
            "FROM (SELECT u, v, count(*) n FROM x GROUP BY u, v)",
            [{"v", "interval"}],
        ),
        (
            "SELECT u, sum(n) OVER (PARTITION BY v ORDER BY n ROWS 2 PRECEDING) r "
            "FROM (SELECT u, v, count(*) n FROM x GROUP BY u, v)",
            [{"v", "interval"}],
        ),
        (
            "SELECT v, max(n) FROM (SELECT u, v, count(*) n FROM x GROUP BY u, v) GROUP BY v",
            [{"v", "interval"}],
        ),
        ("SELECT u FROM x WHERE n > (SELECT max(n) FROM x)", [{"interval"}]),
        ("SELECT u, ts AS at FROM x RESAMPLE at EVERY '1 s' PARTITION BY u", [{"interval"}]),
    ],
)
def test_gates_of_relations(text: str, expected: list[set[str]]) -> None:
    found = gates(text, "root")
    assert [each for each in expected if each not in found] == []
    assert bool(found) == bool(expected)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def f(a):\n    return a.upper()\n", None),
        ("import random\ndef f(a):\n    return random.random()\n", "imports random"),
        ("from time import time\ndef f(a):\n    return time()\n", "imports time"),
        ("def f(a):\n    return hash(a)\n", "calls hash"),
        ("import datetime\ndef f(a):\n    return datetime.datetime.now()\n", "calls now"),
        ("n = 0\ndef f(a):\n    global n\n    n += 1\n    return n\n", "changes a variable outside itself"),
        ("def f(:\n", "cannot be parsed"),
        ("\x00", "cannot be parsed"),
        ("(" * 5000, "cannot be parsed"),
    ],
)
def test_functions_whose_text_shows_more_than_arguments(source: str, reason: str | None) -> None:
    assert impurity(PythonFunction("f", (("a", STRING),), STRING, False, source)) == reason


def test_a_statement_with_no_relation_has_no_steps_of_one() -> None:
    assert list(relation_steps(parse("SELECT count(*) FROM log").relation)) == []
