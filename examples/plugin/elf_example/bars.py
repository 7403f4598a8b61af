"""The format `bars`: `2015-05-17T10:05:03Z | GET | /a | 12`, with another separator as `bars:;`."""

from __future__ import annotations


class Bars:
    """A time, a method, a path and a number of milliseconds between separators."""

    api_version = 1
    columns = {"ts": "string", "method": "string", "path": "string", "ms": "int"}  # noqa: RUF012
    argument = "?"

    def __init__(self, argument: str) -> None:
        if len(argument) > 1:
            raise ValueError("the separator is one character")
        self._separator = argument or "|"

    def parse(self, line: str) -> dict[str, str | None] | None:
        """Return the fields of a line; None if it has another number of fields."""
        parts = [part.strip() for part in line.split(self._separator)]
        return dict(zip(self.columns, parts, strict=True)) if len(parts) == len(self.columns) else None
