"""Parser of WITH FUNCTION ... LANGUAGE PYTHON AS $$ ... $$, which runs before the SQL parser.

A body between `$$` becomes one token. Masking it changes no offset and no line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from elfmesh.errors import QueryError
from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.nodes import Expr, PythonCall, Star, walk
from elfmesh.ql.expressions.python_function import PythonFunction
from elfmesh.ql.expressions.refusals import (
    GROUPING,
    OVER_FUNCTIONS,
    PLAIN_FORMS,
    SPECIAL_FORMS,
    WINDOWS,
)
from elfmesh.ql.expressions.registry import FUNCTIONS
from elfmesh.ql.expressions.text_source import SourceText
from elfmesh.ql.plan.translating import Translating
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    type_name,
)
from elfmesh.text import suggest

SOURCE_BYTES_MAX = 64 << 10
FUNCTIONS_MAX = 16
"""Maximum number of functions of one statement, because its worker loads all of them."""

ARGUMENTS_MAX = 32
TYPES: Mapping[str, pa.DataType] = {
    type_name(kind): kind for kind in (BIGINT, DOUBLE, STRING, BOOLEAN, BINARY, TIMESTAMP, DATE)
}
"""Types of arguments and results."""

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,63}")
_FENCE = "$$"
_QUOTED = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|\$\$(.*?)\$\$", re.DOTALL
)
_SHAPE = (
    "Write WITH FUNCTION name(x BIGINT) RETURNS STRING LANGUAGE PYTHON AS $$ def name(x): ... $$ SELECT ..."
)


def masked(text: str) -> str:
    """Replace every $$ body $$ by a string of blanks with the same length and the same lines."""
    if _FENCE not in text:
        return text

    def blank(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        return "'" + re.sub(r"[^\n]", " ", match[0][1:-1]) + "'"

    return _QUOTED.sub(blank, text)


def is_fenced(source: SourceText, token: Token) -> bool:
    return token.token_type == TokenType.STRING and source.text.startswith(_FENCE, token.start)


def cut_functions(
    source: SourceText, tokens: Sequence[Token], begin: int
) -> tuple[dict[str, PythonFunction], int]:
    """Parse the functions declared at a token. Returns them and the position of the query's first token."""
    reader = _Reader(source, tokens, begin)
    found = reader.declarations()
    for token in tokens[reader.at :]:
        if is_fenced(source, token):
            raise source.error("$$ can only enclose the source of a function", token.start, _SHAPE)
    return found, reader.at


def python_call(translator: Translating, function: PythonFunction, node: exp.Anonymous) -> Expr:
    args = tuple(translator.expr(arg) for arg in node.expressions)
    if len(args) != len(function.takes) or any(isinstance(arg, Star) for arg in args):
        number = len(function.takes)
        message = f"{function.name} takes {number} argument{'s' * (number != 1)}"
        raise translator.error(node, message, f"It is declared as {function.signature}.")
    return PythonCall(function.name, args, at=translator.place(node), function=function)


class _Reader:
    """Parser of function declarations, token by token."""

    def __init__(self, source: SourceText, tokens: Sequence[Token], at: int) -> None:
        self._source, self._tokens, self.at = source, tokens, at

    def declarations(self) -> dict[str, PythonFunction]:
        found: dict[str, PythonFunction] = {}
        if (self._word(), self._word(1)) != ("WITH", "FUNCTION"):
            return found
        self.at += 1
        while True:
            place = self._place(1)
            function = self._declaration()
            if function.name in found or is_known(function.name):
                raise self._source.error(
                    f"there is a function {function.name} already", place, "Give it another name."
                )
            found[function.name] = function
            if len(found) > FUNCTIONS_MAX:
                raise self._source.error(
                    f"more than {FUNCTIONS_MAX} functions", place, "Remove some of them."
                )
            if self._word() != ",":
                return found
            self.at += 1

    def _declaration(self) -> PythonFunction:
        self._expect("FUNCTION")
        name = self._name("the name of the function")
        takes = self._arguments()
        self._expect("RETURNS")
        gives = self._type()
        self._expect("LANGUAGE")
        self._expect("PYTHON")
        vectorised = self._word() in ("VECTORISED", "VECTORIZED")
        self.at += vectorised
        ordered = self._annotation()
        self._expect("AS")
        return PythonFunction(name, takes, gives, vectorised, self._body(name), ordered)

    def _annotation(self) -> tuple[str, ...] | None:
        """Parse [CONFLUENT READ | ORDERED READ [BY (a, b)]]."""
        kind = self._word()
        if kind not in ("CONFLUENT", "ORDERED"):
            return None
        self.at += 1
        if self._word() == "WRITE":
            hint = "A function keeps no state. Write a program for a component with state."
            raise self._error("a function cannot be declared WRITE", hint)
        self._expect("READ")
        if kind == "CONFLUENT":
            return None
        columns: list[str] = []
        if self._word() == "BY":
            self.at += 1
            self._expect("(")
            columns.append(self._name("a column"))
            while self._word() == ",":
                self.at += 1
                columns.append(self._name("a column"))
            self._expect(")")
        return tuple(columns)

    def _arguments(self) -> tuple[tuple[str, pa.DataType], ...]:
        takes: dict[str, pa.DataType] = {}
        self._expect("(")
        while self._word() != ")":
            if takes:
                self._expect(",")
            place = self._place()
            name = self._name("the name of an argument")
            if name in takes or len(takes) == ARGUMENTS_MAX:
                raise self._source.error(
                    f"argument {name} is duplicated, or there are more than {ARGUMENTS_MAX} arguments", place
                )
            takes[name] = self._type()
        self.at += 1
        if not takes:
            raise self._error("a function without arguments is a constant", "Write the constant itself.")
        return tuple(takes.items())

    def _body(self, name: str) -> str:
        token = self._tokens[self.at] if self.at < len(self._tokens) else None
        if token is None or not is_fenced(self._source, token):
            raise self._error("the source of a function must be between $$ and $$", _SHAPE)
        body = self._source.text[token.start + len(_FENCE) : token.end + 1 - len(_FENCE)]
        if len(body.encode()) > SOURCE_BYTES_MAX:
            raise self._error(f"the source of {name} is longer than {SOURCE_BYTES_MAX} bytes")
        if not re.search(rf"(?m)^def {name}\b|^{name}\s*=", body):
            raise self._error(
                f"the source does not define {name}",
                f"Write `def {name}(...):` at the beginning of a line, not indented.",
            )
        self.at += 1
        return body

    def _name(self, what: str) -> str:
        token = self._tokens[self.at] if self.at < len(self._tokens) else None
        name = "" if token is None or token.token_type == TokenType.STRING else token.text.lower()
        if not _NAME.fullmatch(name):
            raise self._error(f"expected {what}, found `{self._shown()}`", _SHAPE)
        self.at += 1
        return name

    def _type(self) -> pa.DataType:
        kind = TYPES.get(self._word())
        if kind is None:
            hint = suggest(self._word(), TYPES) or f"There are {', '.join(TYPES)}."
            raise self._error(f"`{self._shown()}` is not a type that a function supports", hint)
        self.at += 1
        return kind

    def _expect(self, word: str) -> None:
        if self._word() != word:
            raise self._error(f"expected {word}, found `{self._shown()}`", _SHAPE)
        self.at += 1

    def _word(self, ahead: int = 0) -> str:
        at = self.at + ahead
        return self._tokens[at].text.upper() if at < len(self._tokens) else ""

    def _place(self, ahead: int = 0) -> int:
        at = self.at + ahead
        return self._tokens[at].start if at < len(self._tokens) else self._tokens[-1].end + 1

    def _shown(self) -> str:
        if self.at >= len(self._tokens):
            return "the end of the text"
        token = self._tokens[self.at]
        return self._source.text[token.start : token.end + 1][:40]

    def _error(self, message: str, hint: str = "") -> QueryError:
        return self._source.error(message, self._place(), hint)


def is_known(name: str) -> bool:
    others = (*AGGREGATES, *WINDOWS, *OVER_FUNCTIONS, *SPECIAL_FORMS, *PLAIN_FORMS, *GROUPING)
    return name in FUNCTIONS or name in others


def refuse_python(expr: Expr, source: SourceText) -> None:
    """Raise QueryError for calls of Python functions in positions without records of a stream."""
    for node in walk(expr):
        if isinstance(node, PythonCall):
            raise source.error(
                f"{node.name} is a Python function, which agents evaluate on single records",
                node.at,
                "Give it fields, before aggregates and joins: sum(f(x)), or FROM (SELECT f(x) AS y FROM s).",
            )
