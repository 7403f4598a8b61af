"""Refusal of SQL that ELF-QL does not have, token by token; marks on the calls that ELF-QL has."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.foreign_functions import FOREIGN_FUNCTIONS
from elfmesh.ql.expressions.foreign_phrases import foreign_phrase
from elfmesh.ql.expressions.refusals import (
    FOREIGN_STATEMENTS,
    FOREIGN_TYPES,
    GENERATORS,
    GROUPING,
    MARK,
    OVER_FUNCTIONS,
    PLAIN_FORMS,
    SPECIAL_FORMS,
    UNSUPPORTED_WORDS,
    WINDOWS,
)
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.functions import all  # noqa: F401 - fills the registry
from elfmesh.ql.text.tokens import has_special_form, is_alias
from elfmesh.text import suggest

OURS = (*FUNCTIONS, *AGGREGATES, *WINDOWS, *OVER_FUNCTIONS, *GENERATORS, *GROUPING)
"""Names of all functions, aggregates and window calls of ELF-QL."""

_BEGINNINGS = ("SELECT", "CREATE", "WITH")
_QUOTED = (TokenType.STRING, TokenType.IDENTIFIER)
_CASTS = ("CAST", "TRY_CAST")
_CLAUSES = ("SELECT", "FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "LATERAL")
_COMPARISONS = (
    TokenType.EQ, TokenType.NEQ, TokenType.LT, TokenType.LTE, TokenType.GT, TokenType.GTE, TokenType.LIKE,
    TokenType.ILIKE, TokenType.RLIKE,
)  # fmt: skip
"""Tokens after which ANY, SOME and ALL are not functions."""

_WORDS_CALLED = {
    TokenType[name]
    for name in (
        "TRUNCATE", "INSERT", "MERGE", "FORMAT", "GET", "INDEX", "LIST", "NAME", "NEXT", "POINT", "REF",
        "ROW", "SEQUENCE", "UTC_DATE", "UTC_TIME", "UTC_TIMESTAMP", "CURRENT_DATETIME", "CURRENT_SCHEMA",
        "JSON", "JSONB", "UUID", "XML", "MONEY", "TEXT", "VECTOR", "OBJECT", "COMMAND", "DECLARE", "DATETIME",
        "TIME", "BIT", "BLOB", "INET", "CURRENT_CATALOG", "CURRENT_USER", "SESSION_USER",
    )
}  # fmt: skip
"""Keywords of other SQL that sqlglot does not treat as names, refused only as calls."""

_NO_CALL_BEHIND = (
    TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.ALIAS, TokenType.DCOLON,
    TokenType.COLON, TokenType.LT,
)  # fmt: skip
"""Tokens after which such a keyword is an alias or a type."""


def no_select(source: SourceText, tokens: Sequence[Token], at: int) -> QueryError:
    """Return the error for a statement that begins with none of SELECT, WITH, CREATE and `(`."""
    if at >= len(tokens):
        end = tokens[-1].end + 1
        return source.error("a query begins with SELECT, not `the end of the text`", end, "Write SELECT ...")
    token = tokens[at]
    word = source.text[token.start : token.end + 1]
    known = None if token.token_type in _QUOTED else FOREIGN_STATEMENTS.get(token.text.upper().split()[0])
    if known is not None:
        return source.error(f"ELF-QL has no statement {word.split()[0].upper()}", token.start, known)
    hint = suggest(token.text, _BEGINNINGS) or "Begin with SELECT or CREATE JOB name AS SELECT."
    return source.error(f"a query begins with SELECT, not `{word}`", token.start, hint)


def refuse_words(source: SourceText, tokens: Sequence[Token], begin: int) -> None:
    """Raise QueryError for words, types and symbols that only other SQL has."""
    casts = [False]  # for each open parenthesis: whether it belongs to a CAST
    commas = [0]  # and whether a FROM is open in it, and has had a comma
    for at in range(begin, len(tokens)):
        token, before = tokens[at], tokens[at - 1] if at else None
        if token.token_type == TokenType.L_PAREN:
            casts.append(before is not None and before.text.upper() in _CASTS)
            commas.append(0)
        elif token.token_type == TokenType.R_PAREN:
            casts.pop()
            commas.pop()
        if token.token_type in _QUOTED:
            continue
        _refuse_type(source, tokens, at, inside_cast=casts[-1])
        word, after = token.text.upper(), tokens[at + 1] if at + 1 < len(tokens) else None
        kind = None if after is None else after.token_type
        following = "" if after is None or kind == TokenType.IDENTIFIER else after.text.upper()
        if word in _CLAUSES:
            commas[-1] = int(word == "FROM")
        commas[-1] += word == "," and commas[-1] == 1
        if commas[-1] == 2 and word in ("RIGHT", "FULL") and following in ("JOIN", "OUTER"):
            hint = "Write CROSS JOIN in place of the comma."
            raise source.error(f"ELF-QL has no {word} JOIN after a comma in FROM", token.start, hint)
        refused = UNSUPPORTED_WORDS.get(word)
        if refused is not None and (refused.following is None or following in refused.following):
            raise source.error(refused.message, token.start, refused.hint)
        third = tokens[at + 2].text.upper() if at + 2 < len(tokens) else ""
        if word == "WINDOW" and kind in (TokenType.VAR, TokenType.NUMBER) and third != "AS":
            hint = "Write WINDOW w AS (PARTITION BY a ORDER BY b)."
            raise source.error("WINDOW gives a name to a window", token.start, hint)
        if token.token_type == TokenType.VAR and re.fullmatch(r"\d[\d_]*", token.text):
            plain = token.text.replace("_", "")
            hint = f"Write {plain}, or the name `{token.text}`."
            raise source.error(f"{token.text} is not a number", token.start, hint)
        if token.token_type == TokenType.HINT:
            message = "ELF-QL has no hints because it plans a query in only one way"
            raise source.error(message, token.start, "Remove it.")


def refuse_phrases(source: SourceText, tokens: Sequence[Token]) -> None:
    """Raise QueryError for phrases that only other SQL has: SELECT TOP 3, a // b, FETCH FIRST 3 ROWS."""
    found = foreign_phrase(tokens)
    if found is not None:
        token, refused = found
        raise source.error(refused.message, token.start, refused.hint)


def _refuse_type(source: SourceText, tokens: Sequence[Token], at: int, *, inside_cast: bool) -> None:
    """Raise QueryError for a type that ELF-QL lacks: CAST(x AS JSON), x::JSON, TIME '10:00'."""
    token, before = tokens[at], tokens[at - 1] if at else None
    written = source.text[token.start : token.end + 1].upper()
    hint = FOREIGN_TYPES.get(written)
    if hint is None or before is None:
        return
    cast = before.token_type == TokenType.DCOLON or (before.token_type == TokenType.ALIAS and inside_cast)
    behind = tokens[at + 1].token_type if at + 1 < len(tokens) else None
    literal = behind == TokenType.STRING and written != "INTERVAL" and before.token_type != TokenType.ALIAS
    if cast or literal:
        raise source.error(f"ELF-QL has no type {written}", token.start, hint)


def mark_functions(source: SourceText, tokens: list[Token], declared: Collection[str]) -> list[Token]:
    """Insert `MARK` before the names of all calls, so that sqlglot passes the calls through.

    Raises QueryError.
    """
    marked = []
    for at, token in enumerate(tokens):
        following = tokens[at + 1] if at + 1 < len(tokens) else None
        called = following is not None and following.token_type == TokenType.L_PAREN
        called = called and not is_alias(tokens, at)
        marked.append(_marked(source, token, tokens, at, declared) if called else token)
    return marked


def _marked(
    source: SourceText, token: Token, tokens: list[Token], at: int, declared: Collection[str]
) -> Token:
    name = token.text.lower()
    if token.token_type in (TokenType.STRING, TokenType.NUMBER) or _is_form(tokens, at):
        return token
    known = name in declared or name in OURS
    if known and not (name in SPECIAL_FORMS and has_special_form(tokens, at + 1)):
        return Token(
            TokenType.VAR, MARK + name, line=token.line, col=token.col, start=token.start, end=token.end
        )
    if name in FOREIGN_FUNCTIONS and not known:
        message = f"ELF-QL has no function {token.text}"
        raise source.error(message, token.start, FOREIGN_FUNCTIONS[name])
    if not known and name not in PLAIN_FORMS and _is_called(tokens, at):
        if _is_named_query(tokens, at):
            message = f"the columns of {token.text} must be names in parentheses"
            raise source.error(message, token.start, "Write WITH t(a, b) AS (SELECT ...).")
        if at and tokens[at - 1].token_type == TokenType.JOIN:
            hint = "JOIN takes the name of a stream, or a query in brackets."
            raise source.error(f"ELF-QL has no {token.text}(...) in JOIN", token.start, hint)
        hint = suggest(name, (*declared, *OURS))
        hint = (
            hint
            or "The page on ELF-QL in the documentation lists the functions; WITH FUNCTION declares others."
        )
        raise source.error(f"unknown function {token.text}", token.start, hint)
    return token


def _is_named_query(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the name is that of a query in WITH name(...) AS (SELECT."""
    depth = 0
    for end in range(at + 1, len(tokens)):
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(tokens[end].token_type, 0)
        if depth == 0:
            words = [each.text.upper() for each in tokens[end + 1 : end + 4]]
            return words[:2] == ["AS", "("] and words[2:] in (["SELECT"], ["WITH"])
    return False


def _is_called(tokens: Sequence[Token], at: int) -> bool:
    if tokens[at].token_type == TokenType.VAR:
        return True
    before = tokens[at - 1].token_type if at else None
    return tokens[at].token_type in _WORDS_CALLED and before not in _NO_CALL_BEHIND


def _is_form(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a word before `(` names no call: FILTER (WHERE, EXISTS (SELECT, LIKE ANY (."""
    word = tokens[at].text.upper()
    before = tokens[at - 1].token_type if at else None
    inside = tokens[at + 2].text.upper() if at + 2 < len(tokens) else ""
    if word == "FILTER":
        return inside == "WHERE"
    if word == "EXISTS":
        return inside in ("SELECT", "WITH", "(", "FROM", "VALUES")
    if word in ("ANY", "SOME", "ALL"):
        return before in _COMPARISONS
    typed = before in (TokenType.ALIAS, TokenType.DCOLON)
    return typed and word == "DECIMAL"
