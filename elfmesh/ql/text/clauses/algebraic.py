"""WITH AGGREGATE name(x TYPE, ...) AS expression: aggregates that a statement makes of those of ELF-QL.

A call is replaced by the expression before the text is parsed, so all laws of the aggregate are those of its
parts: it can be merged, slides with its window and is as exact as they are. The tokens of the expression and
of the arguments keep their offsets, so errors refer to the user's text.

Paper: Aurora*/Medusa 2.2, 5.1 (aggregates with combine: agg(S) = combine(agg(A), agg(B))).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.declared import TYPES, is_known
from elfmesh.ql.text.tokens import TokenReader
from elfmesh.text import suggest

ARGUMENTS_MAX, AGGREGATES_MAX = 32, 16
TOKENS_MAX = 20_000
"""Maximum number of tokens of a statement whose calls are replaced, because calls may be nested."""

_SHAPE = "Write WITH AGGREGATE wavg(x DOUBLE, w DOUBLE) AS sum(x * w) / sum(w) SELECT ..."
_INSIDE = "Write it in the expression of the aggregate: sum(x) FILTER (WHERE x > 0)."
_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_NAMES = (TokenType.VAR, TokenType.IDENTIFIER)
_OPENING, _CLOSING = TokenType.L_PAREN, TokenType.R_PAREN


class AlgebraicAggregate(Struct, frozen=True):
    """Declared aggregate; `takes` has the type of each argument, `body` the tokens of its expression."""

    name: str
    at: int
    takes: Mapping[str, str]
    body: tuple[Token, ...]


class AlgebraicReader(TokenReader):
    """Reads the aggregates that a statement declares, and replaces their calls."""

    def __init__(
        self, source: SourceText, tokens: Sequence[Token], begin: int, functions: Collection[str]
    ) -> None:
        super().__init__(source, list(tokens))
        self._at = begin
        self._functions = functions
        self._found: dict[str, AlgebraicAggregate] = {}
        self._used: set[str] = set()

    def cut(self) -> list[Token]:
        """Return the tokens without the declarations and with the calls replaced. Raises QueryError."""
        begin = self._at
        if (self._word(), self._word(1)) != ("WITH", "AGGREGATE"):
            return self._tokens
        self._at += 1
        while True:
            self._declaration()
            if self._word() != ",":
                break
            self._at += 1
        made = self._replaced(self._tokens[self._at :])
        unused = next((each for each in self._found.values() if each.name not in self._used), None)
        if unused is not None:
            raise self._source.error(f"the aggregate {unused.name} is not used", unused.at, "Remove it.")
        return self._tokens[:begin] + made

    # -- declarations

    def _declaration(self) -> None:
        self._expect("AGGREGATE")
        place = self._tokens[self._at].start if self._at < len(self._tokens) else 0
        if self._at < len(self._tokens) and self._tokens[self._at].token_type not in _NAMES:
            raise self._error(f"expected the name of the aggregate, found `{self._shown()}`", _SHAPE)
        name = self._called("the name of the aggregate")
        if name in self._found or name in self._functions or is_known(name):
            raise self._source.error(f"there is a function {name} already", place, "Give it another name.")
        if len(self._found) == AGGREGATES_MAX:
            raise self._source.error(f"more than {AGGREGATES_MAX} aggregates", place, "Remove some of them.")
        takes = self._arguments()
        self._expect("AS")
        self._found[name] = AlgebraicAggregate(name, place, takes, self._body(name, takes))

    def _arguments(self) -> dict[str, str]:
        takes: dict[str, str] = {}
        self._expect("(")
        while self._word() != ")":
            if takes:
                self._expect(",")
            at = self._at
            name = self._called("the name of an argument")
            if name in takes or len(takes) == ARGUMENTS_MAX:
                self._at = at
                raise self._error(f"argument {name} is given twice, or there are more than {ARGUMENTS_MAX}")
            kind = self._word()
            if kind not in TYPES:
                hint = suggest(kind, TYPES) or f"There are {', '.join(TYPES)}."
                raise self._error(f"`{self._shown()}` is not a type that an aggregate supports", hint)
            takes[name] = kind
            self._at += 1
        self._at += 1
        return takes

    def _body(self, name: str, takes: Mapping[str, str]) -> tuple[Token, ...]:
        begin, depth = self._at, 0
        while self._at < len(self._tokens):
            token, word = self._tokens[self._at], self._word()
            if not depth and (word in ("SELECT", "WITH") or (word == "," and self._word(1) == "AGGREGATE")):
                break
            depth += (token.token_type == _OPENING) - (token.token_type == _CLOSING)
            if depth < 0 or word in ("SELECT", "OVER"):
                raise self._error(f"the expression of {name} cannot contain `{self._shown()}`", _SHAPE)
            self._at += 1
        body = tuple(self._tokens[begin : self._at])
        self._check_body(name, takes, body, begin)
        return body

    def _check_body(self, name: str, takes: Mapping[str, str], body: Sequence[Token], begin: int) -> None:
        reduces, used = False, set[str]()
        for at, token in enumerate(body):
            self._at, word = begin + at, token.text.lower()
            if token.token_type not in _NAMES and word not in takes:
                reduces |= word in AGGREGATES
                continue
            if self._word(1) == "(":
                reduces |= word in AGGREGATES
                if word == name or word in self._found:
                    raise self._error(
                        f"the expression of {name} uses {word}, which a statement declares", _SHAPE
                    )
            elif word in takes:
                used.add(word)
            elif self._word(-2) != "INTERVAL":
                raise self._error(f"{token.text} is not an argument of {name}", f"It has {', '.join(takes)}.")
        self._at = begin
        if not reduces:
            raise self._error(f"the expression of {name} has no aggregate", _SHAPE)
        if left := [each for each in takes if each not in used]:
            raise self._error(f"the expression of {name} does not use {left[0]}", "Remove the argument.")
        self._at = begin + len(body)

    # -- calls

    def _replaced(self, tokens: Sequence[Token]) -> list[Token]:
        made: list[Token] = []
        at = 0
        while at < len(tokens):
            token = tokens[at]
            aggregate = self._found.get(token.text.lower()) if token.token_type in _NAMES else None
            called = at + 1 < len(tokens) and tokens[at + 1].token_type == _OPENING
            if aggregate is None or not called or (at and tokens[at - 1].token_type == TokenType.DOT):
                made.append(token)
                at += 1
            else:
                args, at = self._given(tokens, at + 1)
                made += self._call(aggregate, token, args)
                behind = tokens[at].text.upper() if at < len(tokens) else ""
                if behind in ("FILTER", "OVER"):
                    raise self._source.error(
                        f"{aggregate.name} takes no {behind}", tokens[at].start,
                        _INSIDE if behind == "FILTER" else "Write sum(x) OVER (...) / sum(y) OVER (...).",
                    )  # fmt: skip
            if len(made) > TOKENS_MAX:
                raise self._source.error(
                    f"the text has more than {TOKENS_MAX} words with its aggregates written out", token.start,
                    "Nest fewer calls.",
                )  # fmt: skip
        return made

    def _given(self, tokens: Sequence[Token], opening: int) -> tuple[list[list[Token]], int]:
        """Return the arguments of a call, and the place behind it."""
        args: list[list[Token]] = [[]]
        depth, at = 1, opening + 1
        while at < len(tokens):
            token = tokens[at]
            depth += (token.token_type == _OPENING) - (token.token_type == _CLOSING)
            at += 1
            if not depth:
                break
            if depth == 1 and token.token_type == TokenType.COMMA:
                args.append([])
            else:
                args[-1].append(token)
        return ([] if args == [[]] else args), at

    def _call(self, aggregate: AlgebraicAggregate, call: Token, args: list[list[Token]]) -> list[Token]:
        self._used.add(aggregate.name)
        name, count = aggregate.name, len(aggregate.takes)
        if len(args) != count or not all(args):
            hint = ", ".join(f"{each} {kind}" for each, kind in aggregate.takes.items())
            message = f"{name} takes {count} argument{'s' * (count != 1)}"
            raise self._source.error(message, call.start, f"It is declared as {name}({hint}).")
        for arg in args:
            if arg[0].token_type in (TokenType.DISTINCT, TokenType.STAR):
                raise self._source.error(f"{name} takes no `{arg[0].text}`", arg[0].start, _INSIDE)
        given = {
            each: [
                _word(arg[0], TokenType.VAR, "CAST"), _word(arg[0], _OPENING, "("), *self._replaced(arg),
                _word(arg[-1], TokenType.ALIAS, "AS"), _word(arg[-1], _TYPE_TOKENS[kind], kind),
                _word(arg[-1], _CLOSING, ")"),
            ]
            for (each, kind), arg in zip(aggregate.takes.items(), args, strict=True)
        }  # fmt: skip
        made = [_word(call, _OPENING, "(")]
        for at, token in enumerate(aggregate.body):
            behind = aggregate.body[at + 1].token_type if at + 1 < len(aggregate.body) else None
            word = token.text.lower()
            made += given[word] if word in given and behind != _OPENING else [token]
        return [*made, _word(call, _CLOSING, ")")]

    def _called(self, what: str) -> str:
        name = self._word().lower()
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.token_type == TokenType.STRING or not _NAME.fullmatch(name):
            raise self._error(f"expected {what}, found `{self._shown()}`", _SHAPE)
        self._at += 1
        return name

    def _expect(self, word: str) -> None:
        if self._word() != word:
            raise self._error(f"expected {word}, found `{self._shown()}`", _SHAPE)
        self._at += 1


_TYPE_TOKENS = {kind: TokenType[kind] if kind != "STRING" else TokenType.TEXT for kind in TYPES}


def _word(where: Token, kind: TokenType, text: str) -> Token:
    return Token(kind, text, line=where.line, col=where.col, start=where.start, end=where.end)
