"""Converts filters that Spark pushes down to bounds of interval_index and to states.

A filter is accepted only if the bounds express it exactly; all other filters are returned to Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

COLUMN = ("interval_index",)
STATE = ("state",)


@dataclass(frozen=True, slots=True)
class IntervalBounds:
    """Restriction to the intervals `low <= index <= high` in some states; None is no restriction."""

    low: int | None = None
    high: int | None = None
    states: frozenset[str] | None = None

    def clip(self, after: int, upto: int) -> tuple[int, int]:
        """Return the part of `(after, upto]` within the bounds; an empty part has equal ends."""
        first = after if self.low is None else max(after, self.low - 1)
        last = upto if self.high is None else min(upto, self.high)
        return first, max(first, last)


def narrow(bounds: IntervalBounds, condition: Any) -> IntervalBounds | None:
    """Return `bounds` restricted by Spark's filter object `condition`, or None if Spark must apply it."""
    column, kind = getattr(condition, "attribute", None), type(condition).__name__
    if column not in (COLUMN, STATE):
        return None
    if kind == "IsNotNull":  # neither column is ever null
        return bounds
    value = getattr(condition, "value", None)
    if column == STATE:
        return _narrow_states(bounds, kind, value)
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


def _narrow_states(bounds: IntervalBounds, kind: str, value: Any) -> IntervalBounds | None:
    values = value if kind == "In" and isinstance(value, tuple | list) else (value,)
    if kind not in ("EqualTo", "EqualNullSafe", "In") or not all(isinstance(each, str) for each in values):
        return None
    wanted = frozenset(values)
    return replace(bounds, states=wanted if bounds.states is None else bounds.states & wanted)
