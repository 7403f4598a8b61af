"""What every relation has, for those who only ask for its columns; `relation` has the kinds."""

from __future__ import annotations

from dataclasses import dataclass

from elfmesh.ql.expressions.text_source import Place


@dataclass(frozen=True, slots=True)
class Relation:
    """Base of all relations. `at` is where its text stands."""

    columns: tuple[str, ...]
    at: Place
