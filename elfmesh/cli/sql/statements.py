"""Splits an input into statements, which end with `;`, and commands, which begin with a dot.

A semicolon in a string, a quoted name, a comment or the source of a Python function ends nothing. A command
is a line of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_BLANK = re.compile(r"(?:[\s;]|--[^\n]*|/\*.*?\*/)*", re.DOTALL)
_TOKEN = re.compile(
    r"--[^\n]*|/\*.*?\*/|\b[rR]'[^']*'|\b[rR]\"[^\"]*\"|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`"
    r"|\$\$.*?\$\$|(?P<end>;)|(?P<open>['\"`]|/\*|\$\$)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class ShellInput:
    """One statement without its semicolon, or one command; it begins at the offset `at` of the text."""

    text: str
    at: int

    @property
    def is_command(self) -> bool:
        return self.text.startswith(".")


def split(text: str, start: int = 0) -> tuple[list[ShellInput], int]:
    """Return the inputs that are complete, and the offset at which the rest begins.

    The rest is a statement without its semicolon. Without a rest, the offset is the end of the text.
    """
    found: list[ShellInput] = []
    while True:
        blank = _BLANK.match(text, start)
        assert blank is not None, "it matches nothing, too"
        start = blank.end()
        if text.startswith(".", start):
            end = _end_of_line(text, start)
        elif (semicolon := _end_of_statement(text, start)) is None:
            return found, start
        else:
            end = semicolon
        found.append(ShellInput(text[start:end].rstrip(), start))
        start = end + 1


def _end_of_line(text: str, start: int) -> int:
    end = text.find("\n", start)
    return len(text) if end < 0 else end


def _end_of_statement(text: str, start: int) -> int | None:
    for token in _TOKEN.finditer(text, start):
        if token["end"]:
            return token.start()
        if token["open"]:
            return None
    return None


def is_quoted(before: str) -> bool:
    """Return whether a text ends inside a string, a quoted name, a comment or the source of a function."""
    return any(
        token["open"] or (token[0].startswith("--") and token.end() == len(before))
        for token in _TOKEN.finditer(before)
    )


def is_complete(text: str) -> bool:
    """Return whether Enter ends the input, because it has no unfinished statement."""
    return split(text)[1] >= len(text)


def all_inputs(text: str, start: int = 0) -> list[ShellInput]:
    """Return all inputs of a text; the last statement needs no semicolon."""
    found, rest = split(text, start)
    return [*found, ShellInput(text[rest:].rstrip(), rest)] if rest < len(text) else found
