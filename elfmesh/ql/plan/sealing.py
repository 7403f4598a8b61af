"""Reading of SEALED(key WHEN condition PRODUCERS n [BY x] [RECORDS n] AFTER 'duration').

Before the SQL parser, the words of the clause become commas and marks, so that sqlglot reads a call. A word
counts only in this order and behind a value, so fields may have the same names.

Paper: Blazes III (sealing), IV-A (punctuations).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import ConfigError, QueryError
from elfmesh.ql.expressions.nodes import Aggregate, Call, Expr, FieldRef, SealClause, Star, WindowCall, walk
from elfmesh.ql.expressions.refusals import MARK
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import ALL, NUMBER, ONE, SEALED
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.plan.windows import TIME_COLUMN
from elfmesh.units import parse_duration_us

SHAPE = "Write SEALED(key WHEN event = 'end' PRODUCERS ONE AFTER '24 h')."
_WORDS = ("WHEN", "PRODUCERS", "BY", "RECORDS", "AFTER")
_NEEDED = ("WHEN", "PRODUCERS", "AFTER")
_NO_VALUE = {
    TokenType[name]
    for name in (
        "L_PAREN", "L_BRACKET", "COMMA", "DOT", "DCOLON", "PLUS", "DASH", "STAR", "SLASH", "MOD", "DIV", "EQ",
        "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ", "AMP", "PIPE", "CARET", "TILDE", "DPIPE", "AND", "OR",
        "NOT", "LIKE", "ILIKE", "RLIKE", "BETWEEN", "IN", "IS", "PIPE_SLASH",
    )
}  # fmt: skip
"""Tokens after which a word is a value, not the next part of the clause."""


def sealed_as_calls(source: SourceText, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with each SEALED clause as a call.

    Raises QueryError if a part of the clause is missing or empty.
    """
    made: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        opens = at + 1 < len(tokens) and tokens[at + 1].token_type == TokenType.L_PAREN
        if token.token_type == TokenType.VAR and token.text.upper() == "SEALED" and opens:
            end = closing(tokens, at + 1)
            made += [token, *_as_call(source, tokens[at + 1 : end + 1])]
            at = end
        else:
            made.append(token)
        at += 1
    return made


def closing(tokens: Sequence[Token], opening: int) -> int:
    depth = 0
    for at in range(opening, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[at].token_type, 0)
        if depth == 0:
            return at
    raise AssertionError("the cutter has checked the parentheses")


def _as_call(source: SourceText, tokens: Sequence[Token]) -> list[Token]:
    """Return the parentheses of a clause with a comma and a mark in place of each of its words."""
    made: list[Token] = []
    left, depth, cases, begun = list(_WORDS), 0, 0, 0
    for at, token in enumerate(tokens):
        kind, word = token.token_type, token.text.upper()
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(kind, 0)
        cases += {TokenType.CASE: 1, TokenType.END: -1}.get(kind, 0)
        plain = depth == 1 and not cases and kind not in (TokenType.STRING, TokenType.IDENTIFIER)
        if plain and word in left and at > begun + 1 and tokens[at - 1].token_type not in _NO_VALUE:
            skipped = left[: left.index(word)]
            if missing := next((each for each in skipped if each in _NEEDED), ""):
                raise source.error(f"SEALED needs {missing} before {word}", token.start, SHAPE)
            left, begun = left[left.index(word) + 1 :], at
            made += [_like(token, TokenType.COMMA, ","), _like(token, TokenType.STRING, MARK + word)]
            made.append(_like(token, TokenType.COMMA, ","))
        elif plain and word in (ONE, ALL) and at == begun + 1 and tokens[begun].text.upper() == "PRODUCERS":
            made.append(_like(token, TokenType.STRING, MARK + word))
        else:
            made.append(token)
    if missing := next((each for each in left if each in _NEEDED), ""):
        raise source.error(f"SEALED needs {missing}", tokens[-1].start, SHAPE)
    return made


def _like(token: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, line=token.line, col=token.col, start=token.start, end=token.end)


def sealed_call(translator: Translating, node: exp.Anonymous) -> WindowCall:
    """Return the window of a call that `sealed_as_calls` made. Raises QueryError."""
    parts: dict[str, list[Any]] = {"": []}
    word = ""
    for arg in node.expressions:
        if isinstance(arg, exp.Literal) and arg.name.removeprefix(MARK) in _WORDS and arg.name[0] == MARK[0]:
            word = arg.name.removeprefix(MARK)
            parts[word] = []
        else:
            parts[word].append(arg)
    for name, given in parts.items():
        if name and len(given) != 1:
            raise translator.error(node, f"{name} of SEALED takes one value", SHAPE)
    if missing := next((name for name in _NEEDED if name not in parts), ""):  # DISTINCT takes what follows it
        raise translator.error(node, f"SEALED needs {missing}", SHAPE)

    def value(name: str) -> Expr | None:
        return _value(translator, parts[name][0]) if name in parts else None

    producers, (after,) = parts["PRODUCERS"][0], parts["AFTER"]
    how = (
        producers.name.removeprefix(MARK)
        if isinstance(producers, exp.Literal) and producers.is_string
        else NUMBER
    )
    if how not in (ONE, ALL, NUMBER):
        raise translator.error(producers, "PRODUCERS takes ONE, ALL or a number", SHAPE)
    if how == ALL and "BY" in parts:
        hint = "Write PRODUCERS n BY x, where n is a number or a field."
        raise translator.error(parts["BY"][0], "PRODUCERS ALL is every member, so it takes no BY", hint)
    when, records = value("WHEN"), value("RECORDS")
    assert when is not None
    seal = SealClause(
        tuple(dict.fromkeys(_key(translator, key) for key in parts[""])),
        when,
        how,
        None if how != NUMBER else _whole(value("PRODUCERS")),
        value("BY"),
        None if records is None else _whole(records),
        _duration_us(translator, after),
    )
    return WindowCall(SEALED, TIME_COLUMN, 0, 0, seal, at=translator.place(node))


def _value(translator: Translating, node: Any) -> Expr:
    found = translator.expr(node)
    if isinstance(found, Star):
        raise translator.error(node, "* is not a value", "Name a field.")
    if any(isinstance(each, Aggregate | WindowCall) for each in walk(found)):
        raise translator.error(
            node, "SEALED takes values of single records", "Leave aggregates and windows out of it."
        )
    return found


def _key(translator: Translating, node: Any) -> Expr:
    found = _value(translator, node)
    if not any(isinstance(each, FieldRef) for each in walk(found)):
        raise translator.error(node, "a key of SEALED is a field, or an expression of fields", SHAPE)
    return found


def _whole(expr: Expr | None) -> Call | None:
    """Return a number as BIGINT; a value that is none is null, whatever the type of the field."""
    return None if expr is None else Call("try_cast", (expr,), "BIGINT", at=expr.at)


def _duration_us(translator: Translating, node: Any) -> int:
    hint = "Write AFTER '24 h'."
    if not isinstance(node, exp.Literal) or not node.is_string:
        raise translator.error(node, "AFTER of SEALED takes a duration", hint)
    try:
        found = parse_duration_us(node.name)
    except ConfigError as problem:
        raise translator.error(node, problem.message, hint) from None
    if found <= 0:
        raise translator.error(node, "AFTER must be greater than zero", hint)
    return found


def refuse_sealed(source: SourceText, seal: SealClause) -> QueryError:
    """Return the error for SEALED in a statement without EVERY."""
    hint = "Write CREATE JOB namespace.name EVERY '1 s' AS before SELECT."
    return source.error("SEALED needs EVERY, which publishes the ended partitions", seal.when.at, hint)
