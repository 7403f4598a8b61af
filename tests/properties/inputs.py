"""What stands in FROM: a stream, a query in brackets or in WITH, or several that are joined."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.properties.expressions import Scope, condition, conjunction
from tests.properties.nodes import Node, raw, same, spare, two
from tests.properties.rows import BOOL, DEC, INT, NUM, TEXT, TIME, Column


@dataclass(slots=True)
class Input:
    """What stands in FROM: its text, and the columns that are seen of it.

    Attributes:
        text: as it stands there.
        name: before its columns.
        columns: what is seen of it.
        stream: it is a log, which has no declared types.
        paths: how a column is written that is no field of its own; @ stands for the name.
    """

    text: Node
    name: str
    columns: tuple[Column, ...]
    stream: bool
    paths: Mapping[str, str] = field(default_factory=dict)

    def leaf(self, column: Column, *, bare: bool = False) -> Node:
        name = raw(column.name if bare else f"{self.name}.{column.name}")
        if column.name in self.paths:
            return two(
                column.sort, raw(self.paths[column.name].replace("@", "" if bare else f"{self.name}.")), name
            )
        if self.stream and column.sort == DEC:
            return two(DEC, f"CAST({name} AS DECIMAL(8,2))", name)
        if self.stream and column.sort == TIME and column.name != "ts":
            return two(TIME, f"CAST({name} AS TIMESTAMP)", name)
        return same(column.sort, name)


@dataclass(slots=True)
class Joined(Input):
    """Several inputs."""

    seen: tuple[Input, ...] = ()


def equations(rng: random.Random, before: Scope, there: Scope) -> Node:
    """What stands after ON: equations between columns of one type, and perhaps a condition."""
    sorts = [sort for sort in (INT, INT, TEXT, TIME, NUM) if before.of(sort) and there.of(sort)]
    parts = []
    if sorts and rng.random() < 0.85:
        for _ in range(rng.choice((1, 1, 2))):
            sort = rng.choice(sorts)
            pair = rng.choice(before.of(sort)), rng.choice(there.of(sort))
            if rng.random() < 0.15:
                parts.append(spare(two(BOOL, "({0} <=> {1})", "({0} IS NOT DISTINCT FROM {1})", *pair)))
            else:
                parts.append(spare(same(BOOL, "({0} = {1})", *pair)))
    if not parts or rng.random() < 0.25:
        parts.append(spare(condition(rng, Scope([*before.leaves, *there.leaves]), 1)))
    return conjunction(parts)


def uses(node: Node, scope: Scope) -> bool:
    """Whether an expression has a column of the scope in it."""
    leaves = {leaf.texts() for leaf in scope.leaves}
    return node.texts() in leaves or any(uses(part, scope) for part in node.parts)
