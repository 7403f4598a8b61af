"""Which intervals a query's filters leave: bounds of interval_index from Spark's pushed filters.

A filter is taken only if the bounds say exactly what it says; every other one goes back to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

COLUMN = ("interval_index",)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The intervals `low <= index <= high`; None is no bound."""

    low: int | None = None
    high: int | None = None

    def clip(self, after: int, upto: int) -> tuple[int, int]:
        """The part of `(after, upto]` within the bounds; an empty part has equal ends."""
        first = after if self.low is None else max(after, self.low - 1)
        last = upto if self.high is None else min(upto, self.high)
        return first, max(first, last)


def narrow(bounds: Bounds, condition: Any) -> Bounds | None:
    """`bounds` with `condition` added, or None if Spark has to apply it.

    Args:
        bounds: so far.
        condition: one of Spark's filter objects; its class name is its meaning.
    """
    if getattr(condition, "attribute", None) != COLUMN:
        return None
    kind = type(condition).__name__
    if kind == "IsNotNull":  # the column never is null
        return bounds
    value = getattr(condition, "value", None)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    low, high = {
        "EqualTo": (value, value),
        "EqualNullSafe": (value, value),
        "GreaterThan": (value + 1, None),
        "GreaterThanOrEqual": (value, None),
        "LessThan": (None, value - 1),
        "LessThanOrEqual": (None, value),
    }.get(kind, (None, None))
    if low is None and high is None:
        return None
    return replace(
        bounds,
        low=bounds.low if low is None else max(low, low if bounds.low is None else bounds.low),
        high=bounds.high if high is None else min(high, high if bounds.high is None else bounds.high),
    )
