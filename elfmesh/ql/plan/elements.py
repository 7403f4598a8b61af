"""How a list or a map is taken apart into rows: explode and its kin, LATERAL VIEW and UNNEST. Only data."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from elfmesh.ql.expressions.text_source import Place


class Order(Enum):
    """Which number of an element is a column, too."""

    NONE = "none"
    FIRST = "first"
    """The first column, from 0: posexplode."""
    LAST = "last"
    """The last column, from 1: WITH ORDINALITY."""


@dataclass(frozen=True, slots=True)
class Elements:
    """How rows are made of elements.

    `count` columns come out, of which one is the element's number with `order`. With `fields` the element is
    a struct whose fields are the columns. With `outer` a row without elements stays, with nulls.
    """

    name: str
    count: int
    order: Order
    fields: bool
    outer: bool
    at: Place

    @property
    def values(self) -> int:
        return self.count - (self.order is not Order.NONE)

    @property
    def pairs(self) -> bool:
        return self.values == 2 and not self.fields
