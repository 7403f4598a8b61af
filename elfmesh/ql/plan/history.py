"""HISTORY and UNTIL behind an input of a job: where they begin in the tokens, their values and limits.

They hold for all inputs of the job. Both words are also names of fields and aliases.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from msgspec import Struct
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.units import unix_us

HISTORY, UNTIL = "HISTORY", "UNTIL"
DURATION_US_MAX = 20_000 * 86_400_000_000
"""Maximum duration after HISTORY and UNTIL: the intervals then begin after 1970."""

TIME_US_MAX = 130 * 365 * 86_400_000_000
"""Times after HISTORY and UNTIL are below it: a job without a window has one interval that contains them."""

TIMESTAMP = "TIMESTAMP"
_BEFORE_DURATION = (TokenType.STRING, TokenType.NUMBER, TokenType.DASH)


def begins_range(tokens: Sequence[Token], at: int) -> bool:
    """Return whether HISTORY or UNTIL with what follows it is at a place."""
    if at + 1 >= len(tokens):
        return False
    word, after = tokens[at].text.upper(), tokens[at + 1]
    if word == UNTIL and after.text.upper() == HISTORY:
        return True
    is_duration = after.token_type in _BEFORE_DURATION or after.text.upper() in ("INTERVAL", TIMESTAMP)
    return word in (HISTORY, UNTIL) and is_duration


class JobRange(Struct):
    """HISTORY and UNTIL of a job.

    Attributes:
        at: offset of the first of both words.
        begin_us, end_us: durations in microseconds, or with `dated` times since 1970; 0 for UNTIL HISTORY.
    """

    source: SourceText
    at: int = 0
    begin_us: int | None = None
    end_us: int | None = None
    dated: bool = False

    def __bool__(self) -> bool:
        return self.begin_us is not None or self.end_us is not None

    def add(self, word: str, value: int, at: int, *, dated: bool = False) -> None:
        """Add what is behind a word at `at`.

        Raises:
            QueryError: it is too long or 0, another input has another one, or one word has a time and the
                other one a duration.
        """
        if not dated and value > DURATION_US_MAX:
            raise self.source.error(f"{word} takes at most 20000 d", at, f"Write {word} '20000 d'.")
        open_end = word == UNTIL and not value
        if self and not open_end and self.dated != dated and self.end_us != 0:
            hint = "Write both as TIMESTAMP '2026-11-27 12:00:00', or both as '1 h'."
            raise self.source.error("HISTORY and UNTIL are both times or both durations", at, hint)
        self.dated, self.at = self.dated or dated, self.at or at
        known = self.begin_us if word == HISTORY else self.end_us
        if known not in (None, value):
            raise self.source.error(f"{word} is given twice", at, f"{word} holds for all inputs.")
        if word == HISTORY:
            self.begin_us = value
        else:
            self.end_us = value

    def check(self) -> None:
        """Raise QueryError for an end without a beginning or before it."""
        if self.end_us == 0 and (self.begin_us is None or not (self.begin_us or self.dated)):
            hint = "Write HISTORY '1 h' UNTIL HISTORY."
            raise self.source.error("UNTIL HISTORY needs HISTORY before it", self.at, hint)
        if self.dated and self.end_us and self.end_us <= (self.begin_us or 0):
            raise self.source.error("the job ends before it begins", self.at, "Exchange both times.")


def time_of(source: SourceText, tokens: Sequence[Token], at: int, word: str) -> int:
    """Return the time of the string at a place, behind HISTORY TIMESTAMP, in microseconds since 1970.

    Raises:
        QueryError: it is no time, or not one of the intervals of a job.
    """
    hint = f"Write {word} TIMESTAMP '2026-11-27 12:00:00', in UTC unless it names an offset."
    token = tokens[min(at, len(tokens) - 1)]
    try:
        found = datetime.datetime.fromisoformat(token.text if token.token_type == TokenType.STRING else "")
    except ValueError:
        raise source.error(f"{word} TIMESTAMP takes a time, not `{token.text}`", token.start, hint) from None
    us = unix_us(found if found.tzinfo else found.replace(tzinfo=datetime.UTC))
    if not 0 <= us < TIME_US_MAX:
        raise source.error(f"{word} takes a time from 1970 to 2100", token.start, hint)
    return us
