"""Translation of sqlglot's parse errors, which name tokens and classes and give end positions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.text_source import NOWHERE, SourceText, TextPosition
from elfmesh.ql.plan.declared import masked
from elfmesh.ql.text.clause_order import HINT
from elfmesh.ql.values.type_targets import TYPE_NAMES
from elfmesh.text import suggest


def translated(origin: SourceText, error: ParseError, tokens: Sequence[Token]) -> QueryError:
    found: dict[str, Any] = error.errors[0] if error.errors else {}
    highlight = str(found.get("highlight") or "")
    line, end = int(found.get("line") or 0), int(found.get("col") or 0)
    place = TextPosition(line, max(1, end - len(highlight) + 1)) if line else NOWHERE
    word = highlight.removeprefix("elf_")
    description = str(found.get("description") or "")
    missing = re.match(r"Expecting (\S+)", description)
    at_end = origin.place(tokens[-1].start) == place
    if description.startswith("Expected END after CASE"):
        return _case(origin, tokens, place)
    if description in ("Expected type", "Expected TYPE after CAST"):
        return origin.error(f"ELF-QL has no type {word}", place, f"There are {TYPE_NAMES}.")
    if description == "Expected AS after CAST" or description.endswith("CastToStrType'>"):
        return origin.error("CAST takes a value and a type", place, "Write CAST(x AS BIGINT).")
    if missing:
        return origin.error(f"`{missing[1]}` is missing before `{word}`", place, f"Add {missing[1]}.")
    if description.startswith(("Required keyword", "Expected table")):
        at_end = at_end and word != ")"
        hint = "The text ends too early." if at_end else "A name, a value or an expression belongs there."
        if word.lower() in _WORDS and not at_end:
            hint = f"To use it as a column name, write `{word}` in backquotes."
        side = "after" if at_end else "before"
        return origin.error(f"something is missing {side} `{word}`", place, hint)
    misspelt = _misspelt(origin, tokens, place)
    if misspelt is not None:
        return misspelt
    hint = "Is a comma, an operator or a parenthesis missing before it?"
    if word.upper() in _CLAUSES:
        hint = HINT
    if word.lower() in _WORDS:
        hint += f" To use it as a column name, write `{word}` in backquotes."
    if beside := _BESIDE.search(masked(origin.text)):
        hint = f"{beside[1].upper()} takes the name of a job: JOIN {beside[1].upper()} namespace.job j ON ..."
    return origin.error(f"the query cannot be read at `{word}`", place, hint)


def _case(origin: SourceText, tokens: Sequence[Token], place: TextPosition) -> QueryError:
    opened: list[Token] = []
    for at, token in enumerate(tokens):
        after = tokens[at + 1].token_type if at + 1 < len(tokens) else TokenType.FROM
        if token.token_type == TokenType.CASE and after in (TokenType.FROM, TokenType.COMMA):
            hint = f"A column of this name is written `{token.text}`."
            return origin.error(f"the query cannot be read at `{token.text}`", token.start, hint)
        if token.token_type == TokenType.CASE:
            opened.append(token)
        elif token.token_type == TokenType.END and opened:
            opened.pop()
    if opened:
        message = "this CASE has no END"
        return origin.error(message, opened[-1].start, "Write CASE WHEN condition THEN a ELSE b END.")
    return origin.error("CASE lacks WHEN or THEN here", place, "Write CASE WHEN condition THEN a ELSE b END.")


def _misspelt(origin: SourceText, tokens: Sequence[Token], place: TextPosition) -> QueryError | None:
    """Return the error at a misspelt keyword or one that lacks its BY: `WERE a = 1`, `GROUP k`."""
    at = next((at for at, token in enumerate(tokens) if origin.place(token.start) == place), None)
    for token in () if at is None else tokens[max(0, at - 1) : at + 1][::-1]:
        if token.token_type != TokenType.VAR:
            continue
        word = token.text.upper()
        if word in ("GROUP", "ORDER", "PARTITION"):
            return origin.error(f"{word} needs BY", token.start, f"Write {word} BY a, b.")
        meant = suggest(word, _MISSPELT)
        if meant:
            return origin.error(f"the query cannot be read at `{token.text}`", token.start, meant)
    return None


_MISSPELT = ("FROM", "WHERE", "HAVING", "LIMIT", "OFFSET", "JOIN", "GROUP BY", "ORDER BY", "UNION", "QUALIFY")
_CLAUSES = {"FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "OFFSET", "SELECT", "JOIN"}

_WORDS = {"case", "when", "then", "else", "select", "where", "having", "join", "on", "union", "with"}
"""Keywords that logs use as field names and that have another meaning in the position of a column."""

_BESIDE = re.compile(r"\bJOIN\s+(SAME|LATEST)\b(?!\s+\w+\s*\.)(?!\s*\.)", re.IGNORECASE)
"""SAME or LATEST that is not followed by the name of a job."""


_OPENING = re.compile(r"--[^\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|(['\"`]|/\*)", re.DOTALL)


def unreadable(origin: SourceText) -> QueryError:
    """Return the error at an unterminated quote or comment, because the tokenizer reports no position."""
    at = 0
    while match := _OPENING.search(origin.text, at):
        at = match.end() if match[1] != "/*" else _end_of_comment(origin.text, match.start())
        if not at or (match[1] and match[1] != "/*"):
            what = "quote" if at else "comment"
            return origin.error(
                f"this {what} is not terminated", match.start(1), f"Close it with {match[1] if at else '*/'}."
            )
    return origin.error("the text cannot be tokenized", 0, "Look for a stray quote or backslash.")


def _end_of_comment(text: str, begin: int) -> int:
    """Return the end of a comment, which may contain others; 0 if it is not terminated."""
    depth = 0
    for mark in re.finditer(r"/\*|\*/", text[begin:]):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return begin + mark.end()
    return 0
