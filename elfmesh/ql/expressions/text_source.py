"""Positions in a query's text, and the construction of every `QueryError` with line and column."""

from __future__ import annotations

import re

from msgspec import Struct

from elfmesh.errors import QueryError


class TextPosition(Struct, frozen=True):
    """Line and column, both 1-based; (0, 0) if there is no position."""

    line: int = 0
    column: int = 0


NOWHERE = TextPosition()

_LONG_WORD = re.compile(r"(\S{80})\S{80,}")
"""Very long words are shortened in messages, because they would hide the rest of the message."""


class SourceText(Struct, frozen=True):
    """Text of a query and the name of its source."""

    text: str
    name: str = "query"

    def place(self, offset: int) -> TextPosition:
        """Return the line and column of a character offset. Cost: one scan of the text before it."""
        offset = max(0, min(offset, len(self.text)))
        return TextPosition(
            self.text.count("\n", 0, offset) + 1, offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        )

    def text_at(self, place: TextPosition) -> str:
        """What stands in the line of a place from there on."""
        return self.text.split("\n")[place.line - 1][max(0, place.column - 1) :] if place.line else ""

    def error(self, message: str, at: int | TextPosition, hint: str = "") -> QueryError:
        """Return a `QueryError` at an offset or position; very long words in the message are shortened."""
        place = self.place(at) if isinstance(at, int) else at if at != NOWHERE else TextPosition(1, 1)
        message = _LONG_WORD.sub(r"\1...", message)
        return QueryError(message, line=place.line, column=place.column, hint=hint, source=self.name)


def refused_dollar(source: SourceText, name: str) -> QueryError:
    """Return the error for a name in nginx's syntax for variables (`$name`)."""
    at = max(0, source.text.find(f"${name}"))
    return source.error(
        f"the column `${name}` does not exist", at, f"Columns have no `$` in their names: write {name}."
    )
