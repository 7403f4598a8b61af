"""Expansion of a list or map into rows: explode and similar functions, LATERAL VIEW and UNNEST. Only data."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from elfmesh.ql.expressions.text_source import TextPosition


class ElementOrder(Enum):
    """Position of the column with the element's ordinal number."""

    NONE = "none"
    FIRST = "first"
    """The first column, counted from 0: posexplode."""
    LAST = "last"
    """The last column, counted from 1: WITH ORDINALITY."""


class Elements(Struct, frozen=True):
    """Columns that are made of the elements of a list or map.

    There are `count` columns; with `order`, one of them is the element's ordinal number. With `fields`, the
    element is a struct whose fields are the columns. With `outer`, a row without elements stays, with nulls.
    """

    name: str
    count: int
    order: ElementOrder
    fields: bool
    outer: bool
    at: TextPosition

    @property
    def values(self) -> int:
        return self.count - (self.order is not ElementOrder.NONE)

    @property
    def pairs(self) -> bool:
        return self.values == 2 and not self.fields
