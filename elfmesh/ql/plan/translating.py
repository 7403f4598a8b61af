"""What the parts of the translation ask of the whole: its shape only."""

from __future__ import annotations

from typing import Any, Protocol

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import Place
from elfmesh.ql.plan.scope import Scope


class Translating(Protocol):
    """From sqlglot's nodes to ours."""

    @property
    def scope(self) -> Scope: ...

    def expr(self, node: Any) -> Expr: ...

    def place(self, node: Any) -> Place: ...

    def error(self, node: Any, message: str, hint: str = "") -> QueryError: ...
