"""Values of which some fields do not count when two are compared, such as the position in a text.

msgspec compares all fields of a struct. `PartlyCompared` compares those that are not in `aside`; all other
value classes are plain frozen structs (docs/adr/0090-structs.md).
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, ClassVar

from msgspec import Struct


class _Meanings(dict[type["PartlyCompared"], Callable[[Any], object]]):
    """By class, what reads the fields that count. Filled when a class is first compared."""

    def __missing__(self, kind: type[PartlyCompared]) -> Callable[[Any], object]:
        names = [name for name in kind.__struct_fields__ if name not in kind.aside]
        read = self[kind] = attrgetter(*names) if names else _nothing
        return read


def _nothing(value: object) -> tuple[()]:
    return ()


_MEANINGS = _Meanings()


class PartlyCompared(Struct, frozen=True, eq=False):
    """Base of values that are equal if they have one class and equal fields, apart from those of `aside`.

    Raises TypeError from `hash` if a field that counts has no hash.
    """

    aside: ClassVar[frozenset[str]] = frozenset()

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        meaning = _MEANINGS[type(self)]
        return self is other or meaning(self) == meaning(other)

    def __ne__(self, other: object) -> bool:
        # A struct has its own `!=`, which does not ask `__eq__`.
        equal = self.__eq__(other)
        return equal if equal is NotImplemented else not equal

    def __hash__(self) -> int:
        return hash(_MEANINGS[type(self)](self))
