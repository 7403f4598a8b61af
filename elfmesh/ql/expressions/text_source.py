"""Places in a query's text, and every `QueryError` of this room, each with the 1-based place of its token."""

from __future__ import annotations

import re
from dataclasses import dataclass

from elfmesh.errors import QueryError


@dataclass(frozen=True, slots=True)
class Place:
    """A 1-based line and column; (0, 0) says that a thing has no place of its own."""

    line: int = 0
    column: int = 0


NOWHERE = Place()

_LONG_WORD = re.compile(r"(\S{80})\S{80,}")
"""A literal of thousands of characters would hide what the message says about it."""


@dataclass(frozen=True, slots=True)
class SourceText:
    """A query text and what it was read from."""

    text: str
    name: str = "query"

    def place(self, offset: int) -> Place:
        """The line and column of a character offset. Cost: one scan of the text before it."""
        offset = max(0, min(offset, len(self.text)))
        return Place(
            self.text.count("\n", 0, offset) + 1, offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        )

    def text_at(self, place: Place) -> str:
        """What stands in the line of a place from there on."""
        return self.text.split("\n")[place.line - 1][max(0, place.column - 1) :] if place.line else ""

    def error(self, message: str, at: int | Place, hint: str = "") -> QueryError:
        """A `QueryError` at an offset or place of this text; a very long word in the message is shortened."""
        place = self.place(at) if isinstance(at, int) else at if at != NOWHERE else Place(1, 1)
        message = _LONG_WORD.sub(r"\1...", message)
        return QueryError(message, line=place.line, column=place.column, hint=hint, source=self.name)


def refused_dollar(source: SourceText, name: str) -> QueryError:
    """The error for a name that is written as nginx writes its variables."""
    at = max(0, source.text.find(f"${name}"))
    return source.error(
        f"the column `${name}` does not exist", at, f"Columns have no `$` in their names: write {name}."
    )
