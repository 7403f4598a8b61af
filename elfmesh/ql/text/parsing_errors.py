"""What the parser says in our words: its own text speaks of tokens and classes, and its places are ends."""

from __future__ import annotations

import re
from typing import Any

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.text_source import NOWHERE, Place, SourceText
from elfmesh.ql.plan.declared import masked
from elfmesh.ql.text.clause_order import HINT


def translated(origin: SourceText, error: ParseError, last: Token) -> QueryError:
    """Sqlglot's error in our words: its own text speaks of tokens and classes."""
    found: dict[str, Any] = error.errors[0] if error.errors else {}
    highlight = str(found.get("highlight") or "")
    line, end = int(found.get("line") or 0), int(found.get("col") or 0)
    place = Place(line, max(1, end - len(highlight) + 1)) if line else NOWHERE
    word = highlight.removeprefix("elf_")
    description = str(found.get("description") or "")
    missing = re.match(r"Expecting (\S+)", description)
    at_end = origin.place(last.start) == place
    if missing:
        return origin.error(f"`{missing[1]}` is missing before `{word}`", place, f"Add {missing[1]}.")
    if description.startswith(("Required keyword", "Expected table")):
        hint = "The text ends too early." if at_end else ""
        if word.lower() in _WORDS and not at_end:
            hint = f"A column of this name is written `{word}`."
        return origin.error(f"something is missing after `{word}`", place, hint)
    hint = "Is a comma, an operator or a bracket missing before it?"
    if word.upper() in _CLAUSES:
        hint = HINT
    if word.lower() in _WORDS:
        hint += f" A column of this name is written `{word}`."
    if beside := _BESIDE.search(masked(origin.text)):
        hint = f"{beside[1].upper()} takes the name of a job: JOIN {beside[1].upper()} namespace.job j ON ..."
    return origin.error(f"the query cannot be read at `{word}`", place, hint)


_CLAUSES = {"FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "SELECT", "JOIN"}

_WORDS = {"case", "when", "then", "else", "select", "where", "having", "join", "on", "union", "with"}
"""Words that logs have as names of fields, and that mean something else where a column may stand."""

_BESIDE = re.compile(r"\bJOIN\s+(SAME|LATEST)\b(?!\s+\w+\s*\.)(?!\s*\.)", re.IGNORECASE)
"""SAME or LATEST without the name of a job behind it."""


_OPENING = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|(['\"`]|/\*)", re.DOTALL
)


def unreadable(origin: SourceText) -> QueryError:
    """The tokenizer gives no place: find the quote or comment that is never closed."""
    for match in _OPENING.finditer(origin.text):
        if match[1]:
            what = "comment" if match[1] == "/*" else "quote"
            return origin.error(
                f"this {what} is never closed",
                match.start(1),
                f"Close it with {'*/' if what == 'comment' else match[1]}.",
            )
    return origin.error("the text cannot be split into words", 0, "Look for a stray quote or backslash.")
