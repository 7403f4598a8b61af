"""Laws of all aggregates by kind; a kind may have a parameter, as in "kll:400" or "collect:10"."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache

from elfmesh.cbt.laws.base import Law
from elfmesh.cbt.laws.counts import Count
from elfmesh.cbt.laws.covariance import Covariance
from elfmesh.cbt.laws.extremes import Extreme
from elfmesh.cbt.laws.firsts import First
from elfmesh.cbt.laws.frequent import Frequent, Top
from elfmesh.cbt.laws.hll import HyperLogLog
from elfmesh.cbt.laws.kll import Kll
from elfmesh.cbt.laws.merging import HllMerge, KllMerge, ThetaMerge
from elfmesh.cbt.laws.sets import Collect, CollectSet, Distinct
from elfmesh.cbt.laws.squares import SumOfSquares
from elfmesh.cbt.laws.sums import Sum
from elfmesh.cbt.laws.theta import Theta
from elfmesh.cbt.laws.variance import Variance

_PLAIN: dict[str, Law] = {
    law.kind: law
    for law in (
        Count(),
        Sum(),
        Extreme("min"),
        Extreme("max"),
        First("first"),
        First("last"),
        SumOfSquares(),
        Variance(),
        Covariance(),
        Distinct(),
        HyperLogLog(),
        HllMerge(),
    )
}
_WITH_PARAMETER: dict[str, Callable[..., Law]] = {
    "kll": Kll, "frequent": Frequent, "top": Top, "collect": Collect, "set": CollectSet, "theta": Theta,
    "kllmerge": KllMerge, "thetamerge": ThetaMerge,
}  # fmt: skip
_KIND = re.compile(r"([a-z]+):([1-9]\d{0,6})")


@lru_cache(maxsize=256)
def _find(kind: str) -> Law | None:
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in _WITH_PARAMETER:
        return _WITH_PARAMETER[kind]()
    match = _KIND.fullmatch(kind)
    if match is None or match[1] not in _WITH_PARAMETER:
        return None
    try:
        law = _WITH_PARAMETER[match[1]](int(match[2]))
    except ValueError:
        return None
    # Each kind has one spelling, so that two layouts are equal exactly if their aggregates are.
    return law if law.kind == kind else None


class Registry(Mapping[str, Law]):
    """Kind -> law. Iteration yields names without parameters; `in` and [] also accept parameters."""

    def __getitem__(self, kind: str) -> Law:
        """Return the law of a kind.

        Raises:
            KeyError: There is none, or its parameter is out of range.
        """
        if (law := _find(kind)) is None:
            raise KeyError(kind)
        return law

    def __iter__(self) -> Iterator[str]:
        return iter((*_PLAIN, *_WITH_PARAMETER))

    def __len__(self) -> int:
        return len(_PLAIN) + len(_WITH_PARAMETER)


LAWS: Mapping[str, Law] = Registry()
"""Laws of all aggregates, by kind."""
