"""Detection of comparisons that no value can satisfy: the constant is not of the column's type.

Spark returns null for such a comparison, so rows disappear without a message. A caller that knows the
column's type from its format raises an error; one that learns the type from the data warns. Only comparisons
of a column with a constant string that the cast turns into null are checked. `<=>` and NOT IN may be
intended.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import pyarrow as pa
from msgspec import Struct

from elfmesh.errors import ConfigError
from elfmesh.ql.expressions.nodes import Call, Expr, FieldRef, Literal, walk
from elfmesh.ql.expressions.operand import constant, convert
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    STRING,
    TIMESTAMP,
    canonical,
    compared_type,
    is_decimal,
    type_name,
)
from elfmesh.units import parse_size

_SWAPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_COMPARISONS = {"=", "<>", *_SWAPPED}
_STATUS_CLASS = re.compile(r"([1-9])[xX]{2}")
_ACCESS_TIME = "%d/%b/%Y:%H:%M:%S"
_STAMP = "%Y-%m-%d %H:%M:%S"
SAMPLE_CHARS = 40


class Comparison(Struct, frozen=True):
    """Comparison of a column with a constant string; `operator` is normalised to a column on the left."""

    column: FieldRef
    operator: str
    text: Literal

    @property
    def written(self) -> str:
        text = f"'{self.text.value}'"
        inside = f"({text})" if self.operator == "IN" else text
        return f"{self.column.path} {self.operator} {inside}"


def comparisons(exprs: Iterable[Expr]) -> list[Comparison]:
    found: list[Comparison] = []
    for expr in exprs:
        nodes = [node for node in walk(expr) if type(node) is Call]
        negated = {id(node.args[0]) for node in nodes if node.name == "not"}
        for node in nodes:
            if node.name in _COMPARISONS:
                left, right = node.args
                pairs = [(left, node.name, right), (right, _SWAPPED.get(node.name, node.name), left)]
            elif node.name == "in" and id(node) not in negated:
                pairs = [(node.args[0], "IN", each) for each in node.args[1:]]
            else:
                continue
            found += [
                Comparison(column, operator, text)
                for column, operator, text in pairs
                if isinstance(column, FieldRef) and isinstance(text, Literal) and text.kind == "string"
            ]
    return found


def is_impossible(comparison: Comparison, given: pa.DataType) -> bool:
    kind = canonical(given)
    if kind is None or not (kind in (BIGINT, DOUBLE, BOOLEAN, DATE, TIMESTAMP) or is_decimal(kind)):
        return False
    compared = compared_type(kind, STRING, equality=True)
    if compared is None or compared in (STRING, BINARY):
        return False
    return convert(constant(comparison.text.value, STRING), compared).value() is None


def explained(comparison: Comparison, given: pa.DataType) -> str:
    kind = type_name(canonical(given))
    return f"{comparison.column.path} is {kind} and '{comparison.text.value}' is not: no value satisfies it"


def remedy(comparison: Comparison, given: pa.DataType) -> str:
    kind, name, text = canonical(given), comparison.column.path, str(comparison.text.value)
    operator = "=" if comparison.operator == "IN" else comparison.operator
    if kind == TIMESTAMP:
        return f"Write {name} {operator} '{_as_stamp(text)}'."
    if kind == DATE:
        return f"Write {name} {operator} '2026-11-22'."
    if kind == BOOLEAN:
        return f"Write {name} or NOT {name}."
    if match := _STATUS_CLASS.fullmatch(text.strip()):
        low = f"{match[1]}00"
        if operator in _SWAPPED:
            return f"Write {name} {operator} {low}."
        return f"Write {name} {'NOT ' if operator == '<>' else ''}BETWEEN {low} AND {match[1]}99."
    try:
        return f"Write {name} {operator} {parse_size(text)}."
    except ConfigError:
        return f"Write a number: {name} {operator} 200."


def _as_stamp(text: str) -> str:
    try:
        moment = datetime.strptime(text.strip().partition(" ")[0], _ACCESS_TIME)
    except ValueError:
        return "2026-11-22 06:01:00"
    return moment.strftime(_STAMP)


class Doubts:
    """Comparisons of a query that the data may prove impossible.

    Each is reported once per type of the column.
    """

    def __init__(self, exprs: Iterable[Expr]) -> None:
        self._comparisons = comparisons(exprs)
        self._notified: set[tuple[int, pa.DataType]] = set()

    def found(self, column: Callable[[str], pa.Array | None], source: str) -> Iterator[str]:
        """Yield a message for each new impossible comparison in a block, with the file and a value."""
        for at, each in enumerate(self._comparisons):
            array = column(each.column.path)
            if array is None or (at, array.type) in self._notified or array.null_count == len(array):
                continue
            self._notified.add((at, array.type))
            if is_impossible(each, array.type):
                value = str(array.drop_null()[0])[:SAMPLE_CHARS]
                why, instead = explained(each, array.type), remedy(each, array.type)
                yield f"{each.written}: in {source} (such as {value}) {why}. {instead}"
