"""Types of the fields of one JSON stream, inferred from the first values and then kept.

The first block with a value decides (bool, int64, float64, string; a mix of int and float is float64, any
other mix is string, objects and arrays are their JSON text). After that the type can only change from int64
to float64, once. A value that does not fit becomes null and is reported, so that one faulty client cannot
turn all numbers into strings. Integers beyond 64 bits fit only string, because rounding them would merge
different keys.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import pyarrow as pa

NULL, BOOL, INT, FLOAT, STRING = pa.null(), pa.bool_(), pa.int64(), pa.float64(), pa.string()
INT_MIN, INT_MAX = -(2**63), 2**63 - 1
_MISFIT = object()


class StreamSchema:
    """Column types of one stream, shared by its files; `declared` ones never change."""

    def __init__(self, declared: Mapping[str, pa.DataType] | None = None) -> None:
        self.declared = dict(declared or {})
        self.types: dict[str, pa.DataType] = dict(self.declared)
        self._containers: set[str] = set()
        self._origin: tuple[dict[str, pa.DataType], set[str]] | None = None

    def branch(self) -> StreamSchema:
        """Return a copy for a block that is parsed before its turn."""
        other = StreamSchema(self.declared)
        other.types, other._containers = dict(self.types), set(self._containers)
        other._origin = dict(self.types), set(self._containers)
        return other

    def accept(self, branch: StreamSchema) -> bool:
        """Take over the types of a branch, unless the types of this schema have changed since it was made."""
        if branch._origin != (self.types, self._containers):
            return False
        self.types |= branch.types
        self._containers |= branch._containers
        return True

    def column(self, name: str, values: list[object]) -> tuple[pa.Array, list[int]]:
        """Convert decoded JSON values to a column of the stream's type.

        Returns the column and the indices that did not fit.
        """
        if name not in self._containers:
            quick = self._uniform(name, values)
            if quick is not None:
                return quick, []
        return self._mixed(name, values)

    def settle(self, name: str, kind: pa.DataType) -> pa.DataType | None:
        """Return the type of a column whose values all have one plain kind, and fix it for the stream.

        float64 may include integers; null means that there are no values. None: `column` must check each
        value.
        """
        settled = self.types.get(name)
        if kind == NULL:
            return settled or NULL
        if name in self._containers:
            return None
        if settled is None or (settled == INT and kind == FLOAT and name not in self.declared):
            self.types[name] = kind
            return kind
        return settled if kind == settled or (settled == FLOAT and kind == INT) else None

    def _uniform(self, name: str, values: list[object]) -> pa.Array | None:
        try:
            array = pa.array(values)
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            return None
        if array.type not in (NULL, BOOL, INT, FLOAT, STRING):
            return None
        kind = self.settle(name, array.type)
        if kind is None or kind == array.type:
            return None if kind is None else array
        return array.cast(kind, safe=False)

    def _mixed(self, name: str, values: list[object]) -> tuple[pa.Array, list[int]]:
        kinds = {type(value) for value in values if value is not None}
        if kinds & {dict, list}:
            self._containers.add(name)
        settled = self.types.get(name)
        if settled is None:
            settled = self.types[name] = _common_type(kinds)
        elif settled == INT and kinds == {int, float} and name not in self.declared:
            settled = self.types[name] = FLOAT
        fit = _FITS[settled]
        bad: list[int] = []
        out: list[object] = []
        for index, value in enumerate(values):
            fitted = None if value is None else fit(value)
            if fitted is _MISFIT:
                bad.append(index)
                fitted = None
            out.append(fitted)
        return pa.array(out, settled), bad


def _common_type(kinds: set[type]) -> pa.DataType:
    if kinds == {bool}:
        return BOOL
    if kinds == {int}:
        return INT
    if kinds <= {int, float}:
        return FLOAT
    return STRING


def json_text(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _fit_bool(value: object) -> object:
    return value if type(value) is bool else _MISFIT


def _fit_int(value: object) -> object:
    return value if type(value) is int and INT_MIN <= value <= INT_MAX else _MISFIT


def _fit_float(value: object) -> object:
    if type(value) is int and INT_MIN <= value <= INT_MAX:
        return float(value)
    return value if type(value) is float else _MISFIT


def _fit_string(value: object) -> object:
    return str(value) if type(value) is int else json_text(value)


_FITS: Mapping[pa.DataType, Callable[[object], object]] = {
    BOOL: _fit_bool,
    INT: _fit_int,
    FLOAT: _fit_float,
    STRING: _fit_string,
}
DECLARABLE: Mapping[str, pa.DataType] = {"bool": BOOL, "int": INT, "float": FLOAT, "string": STRING}
"""Names of types in a stream's configuration."""


def timestamps(values: Sequence[object]) -> pa.Array:
    """Convert decoded values to event times: epoch numbers or text, value by value; anything else is null."""
    from elfmesh.ql.values.times import to_timestamp_us

    kinds = {type(value) for value in values if value is not None}
    if kinds == {str} or not kinds:
        return to_timestamp_us(pa.array(values, STRING))
    # Integers and floats are read separately, because the float of an integer of nanoseconds is rounded.
    result = to_timestamp_us(pa.array([_integer(value) for value in values], INT))
    if float in kinds:
        floats = to_timestamp_us(pa.array([v if type(v) is float else None for v in values], FLOAT))
        result = pa.compute.coalesce(result, floats)
    if str in kinds:
        texts = to_timestamp_us(pa.array([v if isinstance(v, str) else None for v in values], STRING))
        result = pa.compute.coalesce(result, texts)
    return result


def _integer(value: object) -> int | None:
    return value if type(value) is int and INT_MIN <= value <= INT_MAX else None
