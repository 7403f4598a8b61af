"""Registry of aggregates: the state that each keeps per group, and the laws of that state.

A PAO (partial aggregation object) has, per group, one state per aggregate. States are columns, so every
operation works on all groups at once. The laws, tested for every kind in tests/cbt, are:

    kind      state columns                  identity     merge             inverse  finish
    count     rows (of *), values (of x)     0            +                 negate   int64
    sum       values, limb+k, nan, posinf,   0            + per limb        negate   null if values = 0,
              neginf                                                                 else exact
    sumsq     as sum                         0            as sum            negate   as sum
    variance  as sum, and square+k           0            + per limb        negate   float64, squares around
                                                                                     the mean
    covariance  as sum, other+k, product+k   0            + per limb        negate   float64, products around
                                                                                     the means
    min, max  value                          null         least, greatest   none     the value
    first,    seen, by, rest, value          seen = 0     the record with   none     the value
    last                                                  least, greatest by
    distinct  items: a set                   empty        union             none     int64
    collect   items: the least n, sorted     empty        the least n       none     list
    set       items: the least n distinct    empty        the least n       none     list
    hll       sketch: coupons or registers   no coupons   union, greatest   none     DataSketches bytes
    kll       n, least, greatest, levels,    n = 0        levels together   none     DataSketches bytes
              items
    theta     items: k + 1 least hashes      empty        the least k + 1   none     DataSketches bytes
    frequent  n, error, items, counts        n = 0        + per value       none     DataSketches bytes
    top       as frequent                    n = 0        + per value       none     list of item and count

merge is associative and commutative with that identity. If an inverse is declared, merge(x, negate(x)) is the
identity. kll, frequent and top are associative only within their declared error, once a group has more values
than they keep; all others are exact. Nulls are ignored, as in SQL. NaN is the greatest number, as in Spark.
Integers never wrap, and floats are not rounded before finish.

Owns the laws. Does not depend on keys, trees or encodings.

Paper: ELF 2.2 ("each newly parsed key-value pair is represented as a partial aggregation object"; "invertible
reduce").
"""

from __future__ import annotations

from elfmesh.cbt.laws.base import Accumulator, Law, State, Values
from elfmesh.cbt.laws.registry import LAWS

__all__ = ["LAWS", "Accumulator", "Law", "State", "Values"]
