"""ASSUME: `ASSUME (id -> campaign, bytes >= 0)`, what a job may assume of the records that it reads.

Owns the syntax and the statements that may have the clause. The columns are those of the records, before
WHERE.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec.structs import replace
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.assumption import AssumedBound, AssumedDependency, Assumption
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import Statement, job_read

ASSUME = "ASSUME"
ASSUMPTIONS_MAX = 16
"""Maximum number of assumptions of a job; each is evaluated over every record."""

LIMIT_MAX = 1 << 53
"""Greatest limit of a bound. A double represents each whole number up to it."""

_SHAPE = "Write ASSUME (id -> campaign), ASSUME ((host, id) -> campaign) or ASSUME (bytes >= 0)."
_NAME = re.compile(r"[^\W\d]\w*")
_BOUNDS = {TokenType.GTE: False, TokenType.LTE: True}


def read_assumptions(
    source: SourceText, tokens: Sequence[Token], at: int
) -> tuple[tuple[Assumption, ...], int]:
    """Read the clause whose first word is at a place; returns it and the place behind it.

    Raises:
        QueryError: it is not such a clause.
    """
    reader = _AssumeReader(source, tokens, at + 1)
    return reader.clause(), reader.at


class _AssumeReader:
    """Reads one clause; `at` is the place of the next token."""

    def __init__(self, source: SourceText, tokens: Sequence[Token], at: int) -> None:
        self._source, self._tokens, self.at = source, tokens, at

    def clause(self) -> tuple[Assumption, ...]:
        self._expect(TokenType.L_PAREN, "`(` after ASSUME")
        found = [self._assumption()]
        while self._takes(TokenType.COMMA):
            found.append(self._assumption())
        self._expect(TokenType.R_PAREN, "`,` or `)` after an assumption")
        return tuple(found)

    def _assumption(self) -> Assumption:
        begin = self.at
        left, is_list = self._left()
        kind = self._kind()
        self.at += 1
        place = self._source.place(self._tokens[begin].start)
        if kind == TokenType.ARROW:
            right = self._column()
            if right in left:
                raise self._error(f"{right} determines itself", begin)
            return AssumedDependency(left, right, place)
        if kind in _BOUNDS and not is_list:
            return AssumedBound(left[0], self._number(), _BOUNDS[kind], place)
        raise self._error("an assumption is a dependency `->`, or a bound `>=` or `<=`", self.at - 1)

    def _left(self) -> tuple[tuple[str, ...], bool]:
        """Read the columns on the left, and whether they are a list."""
        if not self._takes(TokenType.L_PAREN):
            return (self._column(),), False
        names = [self._column()]
        while self._takes(TokenType.COMMA):
            at, name = self.at, self._column()
            if name in names:
                raise self._error(f"the column {name} is given twice", at)
            names.append(name)
        self._expect(TokenType.R_PAREN, "`,` or `)` after a column")
        return tuple(names), True

    def _column(self) -> str:
        parts = [self._name()]
        while self._takes(TokenType.DOT):
            parts.append(self._name())
        return ".".join(parts)

    def _name(self) -> str:
        token = self._tokens[self.at] if self.at < len(self._tokens) else None
        quoted = token is not None and token.token_type == TokenType.IDENTIFIER
        plain = token is not None and token.token_type != TokenType.STRING
        if token is None or not (quoted or (plain and _NAME.fullmatch(token.text))):
            raise self._error(f"expected a column, found `{self._shown()}`")
        self.at += 1
        return token.text

    def _number(self) -> int | float:
        begin, sign = self.at, -1 if self._takes(TokenType.DASH) else 1
        token = self._tokens[self.at] if self._kind() == TokenType.NUMBER else None
        typed = token is not None and self.at + 1 < len(self._tokens)
        if token is None or (typed and self._tokens[self.at + 1].start == token.start):
            raise self._error(f"a bound is a number, not `{self._shown()}`")
        self.at += 1
        value = int(token.text) if token.text.isdigit() else float(token.text)
        if abs(value) > LIMIT_MAX:
            raise self._error(f"a bound is at most {LIMIT_MAX}", begin)
        return sign * value

    def _kind(self) -> TokenType | None:
        return self._tokens[self.at].token_type if self.at < len(self._tokens) else None

    def _takes(self, kind: TokenType) -> bool:
        found = self._kind() == kind
        self.at += found
        return found

    def _expect(self, kind: TokenType, what: str) -> None:
        if not self._takes(kind):
            raise self._error(f"expected {what}, found `{self._shown()}`")

    def _shown(self) -> str:
        if self.at >= len(self._tokens):
            return "the end of the text"
        token = self._tokens[self.at]
        return self._source.text[token.start : token.end + 1]

    def _error(self, message: str, at: int | None = None) -> QueryError:
        at = self.at if at is None else at
        offset = self._tokens[at].start if at < len(self._tokens) else self._tokens[-1].end + 1
        return self._source.error(message, offset, _SHAPE)


def with_assumptions(origin: SourceText, statement: Statement, assumes: Sequence[Assumption]) -> Statement:
    """Return a statement with what it assumes; its agents read the columns of the assumptions too.

    Raises:
        QueryError: at an assumption, if records of the statement are not those of one stream, or if the
            column belongs to a joined table.
    """
    if not assumes:
        return statement
    if any(job_read(name) for name in statement.streams):
        hint = "Write it in the job that is read."
        raise origin.error("ASSUME is for records of a stream, not for results of a job", assumes[0].at, hint)
    if len(statement.streams) > 1:
        hint = "Write a job for each stream."
        raise origin.error("ASSUME is for a job that reads one stream", assumes[0].at, hint)
    joined = {join.alias for join in statement.joined}
    for each in assumes:
        for column in each.columns:
            head, _, rest = column.partition(".")
            if rest and head in (*joined, *statement.streams):
                what = "the joined table" if head in joined else "the stream"
                hint = f"Name columns of records of {statement.streams[0]}, without its name."
                raise origin.error(f"{head} is {what}, not a column", each.at, hint)
    mine = tuple(assumes)
    columns = {column for each in mine for column in each.columns}

    def widened(fields: Sequence[str]) -> tuple[str, ...]:
        return tuple(sorted({*fields, *columns}))

    parts = tuple(replace(part, assumes=mine, fields=widened(part.fields)) for part in statement.parts)
    return replace(statement, assumes=mine, fields=widened(statement.fields), parts=parts)
