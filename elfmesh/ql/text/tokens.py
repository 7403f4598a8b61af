"""Preparation of tokens for the parser: join adjacent strings, mark signs, match parentheses; a reader."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import accumulate

from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import ConfigError, QueryError
from elfmesh.ql.expressions.refusals import CUBE, FILE_HINT, MARK, ROLLUP, SETS, SETS_OF, STREAM_NAME
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.statement import ROWS
from elfmesh.units import parse_duration_us, unit_us

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)

UNARY_PLUS = TokenType.PIPE_SLASH
"""Token for a sign `+`, because sqlglot drops its own. The Spark dialect does not use this token."""

_SIGNS = (TokenType.PLUS, TokenType.DASH)

_GROUPINGS = {
    TokenType.ROLLUP: ROLLUP, TokenType.CUBE: CUBE, TokenType.GROUPING_SETS: SETS, TokenType.ROWS: ROWS,
}  # fmt: skip
_BEGINS = (TokenType.GROUP_BY, TokenType.COMMA, TokenType.L_PAREN)

_BEFORE_SIGN = {
    TokenType[name]
    for name in (
        "SELECT", "DISTINCT", "WHERE", "HAVING", "QUALIFY", "ON", "AND", "OR", "NOT", "CASE", "WHEN", "THEN",
        "ELSE", "BETWEEN", "LIKE", "ILIKE", "RLIKE", "COMMA", "L_PAREN", "L_BRACKET", "PLUS", "DASH", "STAR",
        "SLASH", "MOD", "DIV", "EQ", "NEQ", "LT", "LTE", "GT", "GTE", "NULLSAFE_EQ", "AMP", "PIPE", "CARET",
        "TILDE", "DPIPE", "GROUP_BY", "ORDER_BY", "PARTITION_BY", "PIPE_SLASH", "ARROW",
    )
}  # fmt: skip
"""Tokens after which `+` or `-` is a sign; after all others it adds or subtracts."""

_SUFFIX_BITS = {"Y": ("TINYINT", 8), "S": ("SMALLINT", 16), "L": ("BIGINT", 64)}


OPEN_MAX = 2_000
"""Maximum number of parentheses that are open at one place, those in strings included. The tokens of a deeper
text cost more than its refusal is worth."""

_STEPS = {"(": 1, ")": -1}


def refuse_deep(source: SourceText) -> None:
    """Raise QueryError if more parentheses are open at one place than any query has."""
    if source.text.count("(") <= OPEN_MAX:
        return
    opened = accumulate(_STEPS.get(each, 0) for each in source.text)
    place = next((at for at, number in enumerate(opened) if number > OPEN_MAX), None)
    if place is not None:
        raise source.error(
            f"more than {OPEN_MAX} parentheses are open at one place", place, "Reduce the nesting."
        )


def normalised(source: SourceText, tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens with adjacent strings joined and signs marked. Raises QueryError."""
    made = _mark_signs(_merge_intervals(_merge_strings(source, tokens)))
    _check_literals(source, made)
    return made


def _mark_signs(tokens: Sequence[Token]) -> list[Token]:
    marked: list[Token] = []
    closing = -1
    for at, token in enumerate(tokens):
        signs = token.token_type in _SIGNS and (not marked or marked[-1].token_type in _BEFORE_SIGN)
        if signs and token.token_type == TokenType.PLUS:
            marked.append(_as(token, UNARY_PLUS))
            continue
        if signs and (end := _end_of_cast_number(tokens, at + 1)):
            marked.append(_as(token, TokenType.L_PAREN, "("))
            closing = end
        marked.append(token)
        if at == closing:
            marked.append(_as(token, TokenType.R_PAREN, ")"))
    return marked


def _end_of_cast_number(tokens: Sequence[Token], at: int) -> int:
    """The last token of a number that `::` follows: with its sign it is one literal; 0: there is none."""
    if at == len(tokens) or tokens[at].token_type != TokenType.NUMBER:
        return 0
    end = at
    while end + 1 < len(tokens) and tokens[end + 1].start == tokens[at].start:  # 1.5D is read as 1.5::DOUBLE
        end += 1
    return end if end + 1 < len(tokens) and tokens[end + 1].token_type == TokenType.DCOLON else 0


def _check_literals(source: SourceText, tokens: Sequence[Token]) -> None:
    """Raise QueryError for 128Y, 32768S and 9223372036854775808L, which exceed their types."""
    for at, token in enumerate(tokens):
        if token.token_type == TokenType.HEX_STRING and source.text[token.start] == "0":
            raise source.error(
                f"0x{token.text} is not a number",
                token.start,
                f"Write {int(token.text or '0', 16)}, or X'1F' for bytes.",
            )
        typed = tokens[at + 2] if at + 2 < len(tokens) else None
        if token.token_type != TokenType.NUMBER or typed is None or typed.start != token.start:
            continue
        name, bits = _SUFFIX_BITS.get(typed.text.upper(), ("", 0))
        if not bits or not token.text.isdigit():
            continue
        signed = at > 0 and tokens[at - 1].token_type == TokenType.DASH
        signed = signed and (at == 1 or tokens[at - 2].token_type in _BEFORE_SIGN)
        if int(token.text) >= (1 << (bits - 1)) + signed:
            shown = ("-" if signed else "") + source.text[token.start : token.end + 1]
            hint = f"Write a wider one: {token.text}L." if bits < 64 else f"Write a decimal: {token.text}BD."
            raise source.error(f"{shown} does not fit into a {name}", token.start, hint)


def _merge_strings(source: SourceText, tokens: Sequence[Token]) -> list[Token]:
    r"""Join adjacent strings as Spark 4 does: 'it''s' contains a quote; 'a' 'b' and 'a'"b" are both ab.

    After this step a raw string (r'a\b') is an ordinary string.
    """
    merged: list[Token] = []
    for given in tokens:
        raw = given.token_type == TokenType.RAW_STRING
        token = _as(given, TokenType.STRING) if raw else given
        last = merged[-1] if merged else None
        if last is not None and last.token_type == token.token_type == TokenType.STRING:
            touch = last.end + 1 == token.start and not raw
            first = source.text[token.start]
            quote = first if touch and source.text[last.end] == first else ""
            merged[-1] = Token(
                TokenType.STRING, last.text + quote + token.text, line=last.line, col=last.col,
                start=last.start, end=token.end,
            )  # fmt: skip
        else:
            merged.append(token)
    return merged


def _merge_intervals(tokens: Sequence[Token]) -> list[Token]:
    """Join INTERVAL 1 DAY 2 HOURS into one text, because sqlglot reads a sum without brackets."""
    merged: list[Token] = []
    done = 0
    for at, token in enumerate(tokens):
        if at < done:
            continue
        merged.append(token)
        end = at + 1
        while token.token_type == TokenType.INTERVAL and _is_length(tokens[end : end + 2]):
            end += 2
        if end > at + 3:
            done, parts = end, tokens[at + 1 : end]
            text = _as(parts[0], TokenType.STRING, " ".join(each.text for each in parts))
            text.end = parts[-1].end
            merged.append(text)
    return merged


def _is_length(pair: Sequence[Token]) -> bool:
    kinds = (TokenType.NUMBER, TokenType.STRING)
    return len(pair) == 2 and pair[0].token_type in kinds and unit_us(pair[1].text) is not None


def _as(token: Token, kind: TokenType, text: str | None = None) -> Token:
    text = token.text if text is None else text
    return Token(kind, text, line=token.line, col=token.col, start=token.start, end=token.end)


def check_brackets(source: SourceText, tokens: Sequence[Token]) -> None:
    """Raise QueryError at a parenthesis that has no partner."""
    open_at: list[Token] = []
    for token in tokens:
        if token.token_type == TokenType.L_PAREN:
            open_at.append(token)
        elif token.token_type == TokenType.R_PAREN:
            if not open_at:
                raise source.error(
                    "this `)` has no matching `(`", token.start, "Remove it, or add the `(` before it."
                )
            open_at.pop()
    if open_at:
        raise source.error("this `(` has no matching `)`", open_at[-1].start, "Add a `)`.")


_QUERIES = (["SELECT"], ["WITH"], ["VALUES"], ["FROM"], ["TABLE"])


def is_alias(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the name before `(` is an alias with columns: UNNEST(x) [AS] t(e), s t(a, b)."""
    before = tokens[at - 1].token_type if at else None
    if tokens[at].token_type not in _NAMES:
        return False
    if before in (TokenType.ALIAS, TokenType.R_PAREN):
        return True
    if not names_columns(tokens, at + 1):
        return False
    behind = next(end for end in range(at + 1, len(tokens)) if tokens[end].token_type == TokenType.R_PAREN)
    words = [token.text.upper() for token in tokens[behind + 1 : behind + 4]]
    return before in _NAMES or (words[:2] == ["AS", "("] and words[2:] in (*_QUERIES, ["("]))


def names_columns(tokens: Sequence[Token], opening: int) -> bool:
    """Return whether the parentheses contain only names separated by commas: the columns of an alias."""
    for at in range(opening + 1, len(tokens), 2):
        if tokens[at].token_type not in _NAMES or at + 1 == len(tokens):
            return False
        if tokens[at + 1].token_type != TokenType.COMMA:
            return tokens[at + 1].token_type == TokenType.R_PAREN
    return False


def has_special_form(tokens: Sequence[Token], opening: int) -> bool:
    """Return whether a call has keywords between its arguments, as in trim(BOTH 'x' FROM y)."""
    depth = 0
    for token in tokens[opening:]:
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if depth == 0:
            return False
        if depth == 1 and token.text.upper() in ("FROM", "IN", "BOTH", "LEADING", "TRAILING", "PLACING"):
            return True
    return False


def as_calls(tokens: Sequence[Token]) -> list[Token]:
    """Rewrite ROLLUP(...), CUBE(...), GROUPING SETS (...) and ROWS(...) as calls of ELF-QL.

    sqlglot sorts the first three by kind and accepts only columns as arguments, so it loses their order.
    GROUPING SETS after a list of keys becomes the last element of the list, under a name of its own.
    """
    found: list[Token] = []
    for at, token in enumerate(tokens):
        name = _GROUPINGS.get(token.token_type)
        if name is None or at + 1 == len(tokens) or tokens[at + 1].token_type != TokenType.L_PAREN:
            found.append(token)
            continue
        if name == SETS and found and found[-1].token_type not in _BEGINS:
            name = SETS_OF
            found.append(_as(token, TokenType.COMMA, ","))
        found.append(_as(token, TokenType.VAR, MARK + name))
    return found


_BEHIND_JOINS = ("WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "UNION", "SELECT", "FROM")
_WITHIN = "Write JOIN other ON a.x = b.x WITHIN INTERVAL '5' SECOND."


class TokenReader:
    """Reads tokens from the first one on; `_at` is the place of the next one."""

    def __init__(self, source: SourceText, tokens: list[Token]) -> None:
        self._source, self._tokens, self._at = source, tokens, 0

    def _word(self, ahead: int = 0) -> str:
        at = self._at + ahead
        return self._tokens[at].text.upper() if at < len(self._tokens) else ""

    def _has(self, *words: str) -> bool:
        """Return whether any token is one of the words; most statements have none of a clause's."""
        return any(token.text.upper() in words for token in self._tokens)

    def _shown(self) -> str:
        if self._at >= len(self._tokens):
            return "the end of the text"
        token = self._tokens[self._at]
        return self._source.text[token.start : token.end + 1]

    def _error(self, message: str, hint: str = "") -> QueryError:
        at = self._tokens[self._at].start if self._at < len(self._tokens) else self._tokens[-1].end + 1
        return self._source.error(message, at, hint)

    def _identifier(self, what: str) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.token_type == TokenType.STRING or not _NAME.fullmatch(token.text):
            is_file = token is not None and token.token_type == TokenType.STRING and what == STREAM_NAME
            hint = FILE_HINT if is_file else "Names are letters, digits, `_`, `-` and `.`."
            if what == STREAM_NAME and token is not None and not is_file:
                hint += " A column that is called from is written `from`."
            raise self._error(f"expected {what}, found `{self._shown()}`", hint)
        self._at += 1
        return token.text

    def _duration(self, option: str) -> int:
        hint = f"Write {option} '30 s' or {option} INTERVAL 30 SECONDS."
        if self._word() == "INTERVAL":
            self._at += 1
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        text = "" if token is None else token.text
        plain = unit_us(self._word(1)) is not None and re.fullmatch(r"\d+(\.\d+)?", text) is not None
        if plain:
            text += f" {self._word(1)}"
        elif token is None or token.token_type != TokenType.STRING:
            raise self._error(f"{option} takes a duration, not `{self._shown()}`", hint)
        try:
            value = parse_duration_us(text)
        except ConfigError as error:
            raise self._error(error.message, hint) from None
        self._at += 2 if plain else 1
        return value

    def _labels(self) -> tuple[tuple[str, str], ...]:
        hint = "Write ON (role = 'web', zone = 'eu-1')."
        if self._word() != "(":
            raise self._error(f"ON takes labels in parentheses, not `{self._shown()}`", hint)
        labels: dict[str, str] = {}
        while True:
            self._at += 1
            key = self._identifier("the name of a label")
            if self._word() != "=":
                raise self._error(f"expected `=` after the label {key}, found `{self._shown()}`", hint)
            self._at += 1
            token = self._tokens[self._at] if self._at < len(self._tokens) else None
            if token is None or token.token_type != TokenType.STRING:
                raise self._error(f"the value of a label is a 'string', not `{self._shown()}`", hint)
            if labels.get(key, token.text) != token.text:
                raise self._error(
                    f"no agent has two values of the label {key}",
                    "Remove one of them, or use another label.",
                )
            labels[key] = token.text
            self._at += 1
            if self._word() not in (",", "AND"):
                break
        if self._word() != ")":
            raise self._error(f"expected `)` after the labels, found `{self._shown()}`", hint)
        self._at += 1
        return tuple(labels.items())


class WithinReader(TokenReader):
    """Removes WITHIN behind the ON of joins."""

    def cut(self, begin: int) -> tuple[list[Token], dict[int, tuple[int, int]]]:
        """Return the other tokens, and for each WITHIN its microseconds and its offset.

        They are found by the offset of the first name behind JOIN. Raises QueryError.
        """
        if not self._has("WITHIN"):
            return self._tokens, {}
        keep, found = self._tokens[:begin], dict[int, tuple[int, int]]()
        joins: list[Token | None] = [None]  # for each open parenthesis the name behind its last JOIN
        self._at = begin
        while self._at < len(self._tokens):
            token, word = self._tokens[self._at], self._word()
            if token.token_type == TokenType.L_PAREN:
                joins.append(None)
            elif token.token_type == TokenType.R_PAREN:
                joins.pop()
            elif word in _BEHIND_JOINS:
                joins[-1] = None
            elif token.token_type == TokenType.JOIN and self._at + 1 < len(self._tokens):
                joins[-1] = self._tokens[self._at + 1]
            if not self._is_within():
                keep.append(token)
                self._at += 1
                continue
            name = joins[-1]
            if name is None or name.token_type == TokenType.L_PAREN:
                raise self._error("WITHIN stands behind the ON of a JOIN with a stream", _WITHIN)
            if name.start in found:
                raise self._error("WITHIN is given twice", "Remove one of them.")
            self._at += 1
            value = self._at
            found[name.start] = self._duration("WITHIN"), token.start
            if not found[name.start][0]:
                self._at = value
                raise self._error("WITHIN must be greater than zero", _WITHIN)
        return keep, found

    def _is_within(self) -> bool:
        token, behind = self._tokens[self._at], self._tokens[self._at + 1 : self._at + 2]
        named = token.token_type == TokenType.IDENTIFIER or self._word(-1) == "."
        values = (TokenType.STRING, TokenType.NUMBER, TokenType.INTERVAL)
        return self._word() == "WITHIN" and not named and bool(behind) and behind[0].token_type in values
