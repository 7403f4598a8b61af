"""HISTORY and UNTIL behind an input of a job: where they begin in the tokens, and their limits.

They hold for all inputs of the job. Both words are also names of fields and aliases.
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.text_source import SourceText

HISTORY, UNTIL = "HISTORY", "UNTIL"
DURATION_US_MAX = 20_000 * 86_400_000_000
"""Maximum duration after HISTORY and UNTIL: the intervals then begin after 1970."""

_BEFORE_DURATION = (TokenType.STRING, TokenType.NUMBER, TokenType.DASH)


def begins_range(tokens: Sequence[Token], at: int) -> bool:
    """Return whether HISTORY or UNTIL with what follows it is at a place."""
    if at + 1 >= len(tokens):
        return False
    word, after = tokens[at].text.upper(), tokens[at + 1]
    if word == UNTIL and after.text.upper() == HISTORY:
        return True
    is_duration = after.token_type in _BEFORE_DURATION or after.text.upper() == "INTERVAL"
    return word in (HISTORY, UNTIL) and is_duration


def add_to_range(source: SourceText, found: dict[str, int], word: str, value: int, at: int) -> None:
    """Add a duration, 0 for UNTIL HISTORY, to those of the job; `at` is the offset of its word.

    Raises:
        QueryError: it is too long, it is 0, or another input has another one.
    """
    if value > DURATION_US_MAX:
        raise source.error(f"{word} takes at most 20000 d", at, f"Write {word} '20000 d'.")
    if found.setdefault(word, value) != value:
        raise source.error(f"{word} is given twice", at, f"{word} holds for all inputs.")


def check_end(source: SourceText, found: dict[str, int], at: int) -> None:
    """Raise QueryError for UNTIL HISTORY without a beginning; `at` is the offset of the first word."""
    if found.get(UNTIL) == 0 and not found.get(HISTORY):
        hint = "Write HISTORY '1 h' UNTIL HISTORY."
        raise source.error("UNTIL HISTORY needs HISTORY before it", at, hint)
