"""Base class of relations. `relation` has the kinds."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ql.expressions.text_source import TextPosition


@dataclass(frozen=True, slots=True)
class Relation:
    """Base of all relations; `at` is the position in the text."""

    columns: tuple[str, ...]
    at: TextPosition
