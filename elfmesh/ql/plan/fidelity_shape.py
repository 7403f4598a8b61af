"""How the shares of a statement's inputs that are inside become the share that its result represents.

Owns shapes; `relation.py` makes them. It imports no SQL, because agents know shapes before they load it. Each
occurrence of a stream in the text is an input. Paper: PPA III-A, Eq. 2 and 3.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Literal

from msgspec import Struct


class FidelityShape(Struct, frozen=True):
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
