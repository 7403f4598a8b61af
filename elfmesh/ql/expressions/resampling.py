"""RESAMPLE of a SELECT as data.

`text.clauses.resample` reads it, `lowering.resampling` checks its columns, and `engine.resampling` evaluates
it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar

from elfmesh.ql.expressions.nodes import Literal
from elfmesh.ql.expressions.text_source import NOWHERE, TextPosition
from elfmesh.ql.values.compared import PartlyCompared


class Fill(StrEnum):
    """What a column has in a row that RESAMPLE adds."""

    VALUE = "a constant"
    PREVIOUS = "PREVIOUS"
    NEXT = "NEXT"
    LINEAR = "LINEAR"
    LINEAR_OR_PREVIOUS = "LINEAR OR PREVIOUS"


class FillRule(PartlyCompared, frozen=True):
    """How one column is filled; `value` is that of `Fill.VALUE`. A column without a rule is null."""

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    column: str
    how: Fill
    value: Literal
    at: TextPosition = NOWHERE


class ResampleClause(PartlyCompared, frozen=True):
    """RESAMPLE column EVERY every_us PARTITION BY partition FILL (fills) MAX GAP gap_us.

    `gap_us` is 0 without MAX GAP: then no row reads a neighbour.
    """

    aside: ClassVar[frozenset[str]] = frozenset({"at"})
    column: str
    every_us: int
    partition: tuple[str, ...] = ()
    fills: tuple[FillRule, ...] = ()
    gap_us: int = 0
    at: TextPosition = NOWHERE
