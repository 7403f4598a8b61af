"""The registry of aggregates: what state each keeps per group, and the laws that state obeys.

A PAO (partial aggregation object) is, per group, one state per aggregate. States are columns, so every
operation works on all groups at once. Laws, tested for every kind in tests/cbt:

    kind    state columns                       identity          merge       inverse     finish
    count   rows (of *) or values (of x)        0                 +           negate      int64
    sum     values, limb+k, nan, posinf, neginf no limbs, 0       + per limb  negate      null if values = 0,
    else exact min     value                               null              least       none        the value
    max     value                               null              greatest    none        the value

merge is associative and commutative with that identity; where an inverse is declared, merge(x, negate(x)) is
the identity. Nulls are ignored, as in SQL. NaN is the greatest number, as in Spark. Integers never wrap,
floats never round before finish.

Owns: the laws. Refuses to know: keys, trees, bytes on the wire.

Paper: ELF 2.2 ("each newly parsed key-value pair is represented as a partial aggregation object"; "invertible
reduce").
"""

from __future__ import annotations

from elfmesh.cbt.laws.base import Accumulator, Law, State, Values
from elfmesh.cbt.laws.counts import Count
from elfmesh.cbt.laws.extremes import Extreme
from elfmesh.cbt.laws.sums import Sum

LAWS: dict[str, Law] = {law.kind: law for law in (Count(), Sum(), Extreme("min"), Extreme("max"))}
"""Every aggregate the tree knows, by kind."""

__all__ = ["LAWS", "Accumulator", "Law", "State", "Values"]
