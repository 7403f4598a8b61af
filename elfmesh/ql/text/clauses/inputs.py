"""The inputs of a query: FROM [LATEST job | SAME job | stream] [alias] [ON (labels)], HISTORY and UNTIL.

Owns the names behind FROM and the clauses that belong to them. It raises QueryError for relations that ELF-QL
does not have.
"""

from __future__ import annotations

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.refusals import FILE_HINT, FOREIGN_RELATIONS, STREAM_NAME
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.history import HISTORY, TIMESTAMP, UNTIL, JobRange, begins_range, time_of
from elfmesh.ql.plan.statement import BESIDE
from elfmesh.ql.text.clauses.job_header import OPTIONS
from elfmesh.ql.text.tokens import TokenReader, WithinReader, names_columns

QUERY = ("SELECT", "WITH")
_AFTER_FROM = ("WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "ON", "WINDOW", "UNION", "JOIN", "AS")


class InputReader(TokenReader):
    """Reads the inputs of one query.

    Attributes:
        range: HISTORY and UNTIL, which hold for all inputs.
        source_end: offset behind the first input.
    """

    def __init__(self, source: SourceText, tokens: list[Token], begin: int) -> None:
        super().__init__(source, tokens)
        self._at = begin
        self.range, self.source_end = JobRange(source), 0

    def beside(self) -> dict[int, str]:
        """Remove LATEST and SAME before the name of a job; return them by the offsets of the name's parts."""
        begin = self._at
        found, keep = dict[int, str](), self._tokens[:begin]
        for at in range(begin, len(self._tokens)):
            self._at = at
            quoted = self._tokens[at].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
            named = self._word() in BESIDE and self._word(2) == "." and not quoted
            if named and self._word(-1) in ("FROM", "JOIN"):
                found[self._tokens[at + 1].start] = BESIDE[self._word()]
            else:
                keep.append(self._tokens[at])
        self._tokens, self._at = keep, begin
        return found

    def within(self) -> dict[int, tuple[int, int]]:
        """Remove WITHIN behind the ON of joins; see `WithinReader`."""
        self._tokens, found = WithinReader(self._source, self._tokens).cut(self._at)
        return found

    def read(self) -> tuple[dict[int, tuple[tuple[str, str], ...]], list[Token]]:
        """Return the labels by the offsets of the names of streams, and the tokens without these clauses."""
        labels: dict[int, tuple[tuple[str, str], ...]] = {}
        keep: list[Token] = []
        # For each open parenthesis: whether it contains a query, because EXTRACT(x FROM y) reads no input.
        queries, start = [True], self._at
        while self._at < len(self._tokens):
            quoted = self._tokens[self._at].token_type in (TokenType.STRING, TokenType.IDENTIFIER)
            word = "" if quoted else self._word()
            self._at += 1
            if word == "(":
                queries.append(self._word() in QUERY)
            elif word == ")":
                queries.pop()
            elif word == "FROM" and queries[-1] and self._word(-2) != "DISTINCT":  # not IS DISTINCT FROM
                while self._word() != "(" and (self._word() != "UNNEST" or self._word(1) != "("):
                    at = self._stream()
                    if self._word() == "ON":
                        keep += self._tokens[start : self._at]
                        self._at += 1
                        labels[at] = self._labels()
                        start = self._at
                    self.source_end = self.source_end or self._tokens[self._at - 1].end + 1
                    if begins_range(self._tokens, self._at):
                        keep += self._tokens[start : self._at]
                        self._read_range()
                        start = self._at
                    if self._word() != ",":
                        break
                    self._at += 1
        return labels, keep + self._tokens[start:]

    def _read_range(self) -> None:
        """Read HISTORY and UNTIL, which hold for all inputs of the job."""
        while begins_range(self._tokens, self._at):
            word, at, after = self._word(), self._tokens[self._at].start, self._word(1)
            self._at += 1
            if after in (TIMESTAMP, HISTORY):
                value = 0 if after == HISTORY else time_of(self._source, self._tokens, self._at + 1, word)
                self._at += 1 if after == HISTORY else 2
            else:
                value = self._duration(word)
            if word == UNTIL and not value and after != HISTORY:
                raise self._source.error("UNTIL must be greater than zero", at, "Write UNTIL '10 min'.")
            self.range.add(word, value, at, dated=after == TIMESTAMP)
        self.range.check()

    def _stream(self) -> int:
        if self._word() == "STREAM" and self._word(1) not in ("", *_AFTER_FROM, ")"):
            raise self._error("STREAM is not an ELF-QL keyword", "Write FROM name.")
        at = self._tokens[self._at].start if self._at < len(self._tokens) else 0
        self._identifier(STREAM_NAME)
        if self._word() == ".":
            self._at += 1
            self._identifier("the rest of the name")
        if self._word() == "AS":
            self._at += 1
            self._identifier("an alias")
        elif (
            self._at < len(self._tokens)
            and self._tokens[self._at].token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            and not begins_range(self._tokens, self._at)
        ):
            self._refuse_option_after_from()
            self._identifier("an alias")
        self._refuse_option_after_from()
        if self._word() == "(":
            self._after_bracket(at)
        return at

    def _after_bracket(self, at: int) -> None:
        """Skip the columns of an alias, t(a, b); raise QueryError for a table function or a file."""
        if names_columns(self._tokens, self._at) and self._tokens[self._at - 1].start != at:
            while self._word() != ")":
                self._at += 1
            self._at += 1
            return
        name, argument = self._tokens[self._at - 1].text, self._tokens[self._at + 1].token_type
        if self._tokens[self._at - 2].text.upper() == "LATERAL":
            hint = "Write CROSS JOIN LATERAL explode(x) AS t(e)."
            raise self._source.error("ELF-QL has LATERAL only after JOIN", at, hint)
        if self._tokens[self._at - 1].start != at:
            raise self._error(f"the columns of {name} must be names in parentheses", f"Write {name}(a, b).")
        hint = FILE_HINT if argument == TokenType.STRING else "FROM takes the name of a stream."
        hint = FOREIGN_RELATIONS.get(name.upper(), hint)
        message = "ELF-QL has no VALUES" if name.upper() == "VALUES" else f"ELF-QL has no {name}(...) in FROM"
        raise self._source.error(message, at, hint)

    def _refuse_option_after_from(self) -> None:
        word = self._word()
        last = self._at < len(self._tokens) and self._tokens[self._at].token_type == TokenType.VAR
        if last and word in ("GROUP", "ORDER"):
            raise self._error(f"{word} needs BY", f"Write {word} BY a, b.")
        if word in OPTIONS and (self._word(1) or " ")[0] in "0123456789I":
            raise self._error(
                f"{word} is an option of a job, not of a query",
                f"Write CREATE JOB name {word} ... AS SELECT ...",
            )
