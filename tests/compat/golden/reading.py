"""Statements that read nothing, as `elf spark` tells to write them: with a stream behind FROM."""

from __future__ import annotations

from collections.abc import Sequence

import sqlglot
from sqlglot.tokenizer_core import TokenType

ONE = "one"
"""A stream of one record."""

_ENDS = {"WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW"}
_ENDS |= {"QUALIFY", "LATERAL", "CLUSTER BY", "DISTRIBUTE BY", "SORT BY", "MINUS", "OFFSET", ";", ")"}
"""Words as the tokenizer cuts them: GROUP alone is that of WITHIN GROUP."""


def with_stream(text: str) -> str:
    """A statement in which each SELECT that reads nothing reads one record."""
    try:
        tokens = sqlglot.tokenize(text, dialect="spark")
    except sqlglot.errors.TokenError:
        return text
    quoted = (TokenType.STRING, TokenType.IDENTIFIER)
    words = [token.text.upper() if token.token_type not in quoted else "'" for token in tokens]
    ends = [_end_of_items(words, at + 1) for at, word in enumerate(words) if word == "SELECT"]
    # From the last place on, so that the others stay where they are.
    for end in sorted((end for end in ends if end is not None), reverse=True):
        place = tokens[end].start if end < len(tokens) else len(text)
        text = f"{text[:place].rstrip()} FROM {ONE} {text[place:]}".rstrip()
    return text


def _end_of_items(words: Sequence[str], at: int) -> int | None:
    """Where the select list ends that begins at a place; None: FROM stands there."""
    depth = 0
    while at < len(words):
        word = words[at]
        if not depth and word == "FROM" and words[at - 1] != "DISTINCT":
            return None
        follows = words[at + 1] if at + 1 < len(words) else ""
        named = (word == "WINDOW" and follows in (".", "(")) or (word == "EXCEPT" and words[at - 1] == "*")
        if not depth and word in _ENDS and not named:
            return at
        depth += (word == "(") - (word == ")")
        at += 1
    return at
