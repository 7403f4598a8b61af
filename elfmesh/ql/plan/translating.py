"""Interface of the translator for the modules that translate parts of a statement."""

from __future__ import annotations

from typing import Any, Protocol

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Expr
from elfmesh.ql.expressions.text_source import TextPosition
from elfmesh.ql.plan.scope import NameScope


class Translating(Protocol):
    """Translator from sqlglot's nodes to nodes of `expressions`."""

    @property
    def scope(self) -> NameScope: ...

    def expr(self, node: Any) -> Expr: ...

    def value(self, node: Any) -> Expr: ...

    def place(self, node: Any) -> TextPosition: ...

    def error(self, node: Any, message: str, hint: str = "") -> QueryError: ...
