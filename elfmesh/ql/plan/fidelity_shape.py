"""How the shares of a statement's inputs that are inside become the share that its result represents.

Owns the step from a relation to a shape. Each occurrence of a stream in the text is an input, so that a
stream joined with itself is two. Paper: PPA III-A, Eq. 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from elfmesh.ql.plan.relation import (
    Derived,
    Exploded,
    Framed,
    JoinRelation,
    Prefixed,
    Ranked,
    StatementPart,
    Union,
)
from elfmesh.ql.plan.relation_base import Relation


@dataclass(frozen=True, slots=True)
class FidelityShape:
    """An input, a product over joined sources, or a mean of united sources; `whole` lacks nothing.

    Attributes:
        kind: what it is.
        index: number of the input.
        sources: what is joined or united.
    """

    kind: Literal["input", "join", "union", "whole"]
    index: int = -1
    sources: tuple[FidelityShape, ...] = ()

    @property
    def inputs(self) -> tuple[int, ...]:
        """Return the inputs, one for each occurrence."""
        if self.kind == "input":
            return (self.index,)
        return tuple(index for source in self.sources for index in source.inputs)

    def share(self, shares: Sequence[float], weights: Sequence[float]) -> float:
        """Return the share that the result represents.

        Args:
            shares: by input, what is inside.
            weights: by input, its usual number of records.
        """
        return self._folded(shares, weights, prod)

    def bounds(self, shares: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
        """Return the least and the greatest share, whichever records of joined inputs belong together."""
        least = self._folded(shares, weights, lambda each: max(0.0, sum(each) - (len(each) - 1)))
        return least, self._folded(shares, weights, min)

    def _folded(
        self, shares: Sequence[float], weights: Sequence[float], join: Callable[[list[float]], float]
    ) -> float:
        if self.kind == "input":
            return shares[self.index]
        if self.kind == "whole":
            return 1.0
        found = [source._folded(shares, weights, join) for source in self.sources]
        if self.kind == "join":
            return join(found)
        heavy = [sum(weights[index] for index in source.inputs) for source in self.sources]
        if not sum(heavy):
            heavy = [1.0] * len(found)
        return sum(one * weight for one, weight in zip(found, heavy, strict=True)) / sum(heavy)


ONE_INPUT = FidelityShape("input", 0)


def fidelity_shape(relation: Relation | None, apart: Collection[int] = ()) -> FidelityShape:
    """Return the shape of a relation; the parts in `apart`, results of other jobs, are judged elsewhere."""
    match relation:
        case JoinRelation():
            left = fidelity_shape(relation.left, apart)
            # The right side of a join in the text is a Prefixed; totals that are joined to rows are not.
            if not isinstance(relation.right, Prefixed):
                return left
            return FidelityShape("join", sources=(left, fidelity_shape(relation.right, apart)))
        case Union():
            sources = tuple(fidelity_shape(source, apart) for source in relation.sources)
            return FidelityShape("union", sources=sources)
        case Derived() | Prefixed() | Ranked() | Framed() | Exploded():
            return fidelity_shape(relation.source, apart)
        case StatementPart():
            return FidelityShape("whole" if relation.index in apart else "input", relation.index)
    return ONE_INPUT
