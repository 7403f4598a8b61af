"""What stands in FROM: a stream, a query in brackets or in WITH, or several that are joined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.properties.nodes import Node, raw, same, two
from tests.properties.rows import DEC, TIME, Column


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
