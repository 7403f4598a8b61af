"""Plain values of an annotation file, which are hostile: each check names file and line of a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from elfmesh.control.coordination.graph import Place
from elfmesh.errors import DataError
from elfmesh.text import suggest

NAME_CHARS_MAX = 200

Where = tuple[str | int, ...]
"""Keys and positions that lead to a value."""


@dataclass(frozen=True, slots=True)
class Document:
    """Plain values of a file, and the lines on which they stand, as far as they are known."""

    file: str
    values: Any
    lines: Mapping[Where, int] = field(default_factory=dict)

    def place(self, where: Where) -> Place:
        for length in range(len(where), -1, -1):
            if where[:length] in self.lines:
                return Place(self.file, self.lines[where[:length]])
        return Place(self.file)

    def wrong(self, where: Where, message: str) -> DataError:
        keys = ".".join(map(str, where))
        place = self.place(where)
        return DataError(f"{keys}: {message}" if keys and not place.line else message, where=str(place))

    # -- values

    def name(self, where: Where, value: Any) -> str:
        """Return a value that is a name. Raises DataError."""
        if not isinstance(value, str) or not value.strip() or len(value) > NAME_CHARS_MAX:
            raise self.wrong(where, f"a name is a text of 1 to {NAME_CHARS_MAX} characters")
        if not value.isprintable():
            raise self.wrong(where, f"control characters in the name {value!a}")
        return value

    def names(self, where: Where, value: Any) -> frozenset[str]:
        """Return a value that is a name or a list of names. Raises DataError."""
        listed = value if isinstance(value, list) else [value]
        if not listed:
            raise self.wrong(where, "an empty list of columns")
        return frozenset(self.name(where, each).strip() for each in listed)

    def flag(self, where: Where, value: Any) -> bool:
        """Return a value that is true or false. Raises DataError."""
        if not isinstance(value, bool):
            raise self.wrong(where, f"{where[-1]} is true or false")
        return value


def unknown(value: Any, known: Sequence[str] | Mapping[str, Any], what: str) -> str:
    """Return the message about a value that is none of the known ones, with the nearest of them."""
    near = suggest(value, known) if isinstance(value, str) and len(value) <= NAME_CHARS_MAX else ""
    shown = ascii(value if isinstance(value, str | int | bool | None) else type(value).__name__)[
        :NAME_CHARS_MAX
    ]
    return f"unknown {what} {shown}; {near or 'there are ' + ', '.join(known)}"
