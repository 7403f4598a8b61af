"""Base class of relations. `relation` has the kinds."""

from __future__ import annotations

from msgspec import Struct

from elfmesh.ql.expressions.text_source import TextPosition


class Relation(Struct, frozen=True):
    """Base of all relations; `at` is the position in the text."""

    columns: tuple[str, ...]
    at: TextPosition
