"""The clause RESAMPLE at the end of a SELECT: cut from the tokens, and the SELECT wrapped into another.

`SELECT x FROM s RESAMPLE ... ORDER BY y` becomes `SELECT * FROM (SELECT x FROM s) name ORDER BY y`, so what
follows the clause applies to the rows that it adds, too. The name leads to the clause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.nodes import Literal
from elfmesh.ql.expressions.resampling import Fill, FillRule, ResampleClause
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.text.tokens import TokenReader

HINT = "Write RESAMPLE at EVERY '10 s' PARTITION BY host FILL (cpu LINEAR, n 0) MAX GAP '1 min'."
_OPENING, _CLOSING = TokenType.L_PAREN, TokenType.R_PAREN
_BEFORE_ORDER = {TokenType.ORDER_BY, TokenType.LIMIT, TokenType.OFFSET}
_BEHIND = {_CLOSING, *_BEFORE_ORDER, TokenType.UNION, TokenType.INTERSECT, TokenType.EXCEPT}
_NULL = Literal("null", None)
_CONSTANTS = {"NULL": _NULL, "TRUE": Literal("bool", True), "FALSE": Literal("bool", False)}
_NEIGHBOURS = {"PREVIOUS": Fill.PREVIOUS, "NEXT": Fill.NEXT, "LINEAR": Fill.LINEAR}


class ResampleReader(TokenReader):
    """Reads the RESAMPLE clauses of one statement."""

    def __init__(self, source: SourceText, tokens: list[Token], begin: int) -> None:
        super().__init__(source, tokens)
        self._at = begin

    def cut(self) -> tuple[list[Token], Mapping[str, ResampleClause]]:
        """Return the tokens with the SELECTs wrapped, and the clauses by the names of the inner ones.

        Raises QueryError.
        """
        if not self._has("RESAMPLE"):
            return self._tokens, {}
        keep, found = self._tokens[: self._at], dict[str, ResampleClause]()
        selects: list[int | None] = [None]  # for each open parenthesis where its last SELECT is in `keep`
        while self._at < len(self._tokens):
            token = self._tokens[self._at]
            if self._is_clause():
                begin = selects[-1]
                if begin is None:
                    raise self._error("RESAMPLE stands at the end of a SELECT, before ORDER BY", HINT)
                if found:
                    raise self._error("RESAMPLE is given twice", "Read the rows of one in a second job.")
                clause = self._clause()
                name = f"#resample {token.start}"
                found[name] = clause
                keep[begin:begin] = _tokens(keep[begin], ("SELECT", "*", "FROM", "("))
                keep += _tokens(token, (")", "AS"))
                keep.append(_token(token, TokenType.IDENTIFIER, name))
                selects[-1] = None
                continue
            if token.token_type == _OPENING:
                selects.append(None)
            elif token.token_type == _CLOSING and len(selects) > 1:
                selects.pop()
            elif token.token_type == TokenType.SELECT:
                selects[-1] = len(keep)
            elif token.token_type == TokenType.ORDER_BY:
                selects[-1] = None
            keep.append(token)
            self._at += 1
        return keep, found

    def _is_clause(self) -> bool:
        named = self._tokens[self._at].token_type == TokenType.IDENTIFIER or self._word(-1) == "."
        return self._word() == "RESAMPLE" and self._word(2) == "EVERY" and not named

    def _clause(self) -> ResampleClause:
        at = self._source.place(self._tokens[self._at].start)
        self._at += 1
        column = self._identifier("the column to resample")
        every_us = self._positive("EVERY")
        partition: tuple[str, ...] = ()
        if self._at < len(self._tokens) and self._tokens[self._at].token_type == TokenType.PARTITION_BY:
            self._at += 1
            partition = self._names()
        fills = self._fills() if self._word() == "FILL" else ()
        gap_us = 0
        if self._word() == "MAX" and self._word(1) == "GAP":
            self._at += 1
            gap_us = self._positive("GAP")
        neighbour = next((fill for fill in fills if fill.how != Fill.VALUE), None)
        if neighbour is not None and not gap_us:
            raise self._source.error(
                f"{neighbour.how} needs MAX GAP, the greatest distance to a neighbour", neighbour.at, HINT
            )
        if neighbour is None and gap_us:
            raise self._source.error("MAX GAP needs FILL with PREVIOUS, NEXT or LINEAR", at, HINT)
        if self._at < len(self._tokens) and self._tokens[self._at].token_type not in _BEHIND:
            raise self._error(f"expected ORDER BY or the end after RESAMPLE, found `{self._shown()}`", HINT)
        return ResampleClause(column, every_us, partition, fills, gap_us, at)

    def _positive(self, option: str) -> int:
        self._at += 1
        value = self._at
        duration_us = self._duration(option)
        if duration_us <= 0:
            self._at = value
            raise self._error(f"{option} of RESAMPLE must be greater than zero", HINT)
        return duration_us

    def _names(self) -> tuple[str, ...]:
        names = [self._identifier("a column of PARTITION BY")]
        while self._word() == ",":
            self._at += 1
            names.append(self._identifier("a column of PARTITION BY"))
        return tuple(names)

    def _fills(self) -> tuple[FillRule, ...]:
        self._at += 1
        fills: list[FillRule] = []
        self._expect("(")
        while True:
            place = self._source.place(self._tokens[min(self._at, len(self._tokens) - 1)].start)
            column = self._identifier("a column of FILL")
            fills.append(FillRule(column, *self._how(), place))
            if self._word() != ",":
                break
            self._at += 1
        self._expect(")")
        return tuple(fills)

    def _how(self) -> tuple[Fill, Literal]:
        word = self._word()
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.token_type == TokenType.IDENTIFIER:
            raise self._unknown()
        self._at += 1
        if token.token_type == TokenType.STRING:
            return Fill.VALUE, Literal("string", token.text)
        if word in _CONSTANTS:
            return Fill.VALUE, _CONSTANTS[word]
        if word == "LINEAR" and self._word() == "OR" and self._word(1) == "PREVIOUS":
            self._at += 2
            return Fill.LINEAR_OR_PREVIOUS, _NULL
        if word in _NEIGHBOURS:
            return _NEIGHBOURS[word], _NULL
        sign = -1 if token.token_type == TokenType.DASH else 1
        if sign < 0:
            word = self._word()
            self._at += 1
        if self._tokens[self._at - 1].token_type != TokenType.NUMBER:
            self._at -= 1 if sign > 0 else 2
            raise self._unknown()
        if word.isdigit():
            return Fill.VALUE, Literal("bigint", sign * int(word))
        return Fill.VALUE, Literal("double", sign * float(word))

    def _unknown(self) -> QueryError:
        kinds = "a constant, NULL, PREVIOUS, NEXT, LINEAR or LINEAR OR PREVIOUS"
        return self._error(f"FILL takes {kinds}, not `{self._shown()}`", HINT)

    def _expect(self, sign: str) -> None:
        if self._word() != sign:
            raise self._error(f"expected `{sign}` in FILL, found `{self._shown()}`", HINT)
        self._at += 1


_KINDS = {
    "SELECT": TokenType.SELECT, "*": TokenType.STAR, "FROM": TokenType.FROM, "(": _OPENING, ")": _CLOSING,
    "AS": TokenType.ALIAS,
}  # fmt: skip


def _token(where: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, line=where.line, col=where.col, start=where.start, end=where.end)


def _tokens(where: Token, words: Sequence[str]) -> list[Token]:
    return [_token(where, _KINDS[word], word) for word in words]
