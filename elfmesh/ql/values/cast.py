"""CAST as in Spark with ANSI off: unreadable values are null, numbers are truncated to fit.

Every function takes and returns whole arrays. `cast` is the only entry. Implicit conversions use it too, so
CAST(x AS DOUBLE) and x + 1.5 read a string in the same way.

Deviation: a narrow integer type (INT, SMALLINT, TINYINT) truncates the value as in Spark, but the result is
stored as a bigint. A time of day without a date, and region names of zones, are null, because Spark would use
the clock and its zone tables. A text or decimal becomes a FLOAT by way of a double.
"""

from __future__ import annotations

import re

import numpy as np
import pyarrow as pa

from elfmesh.arrow_kernels import pc
from elfmesh.ql.values import decimals, intervals
from elfmesh.ql.values.civil import DAY_US, SECOND_US
from elfmesh.ql.values.columns import float_values, from_numpy, int_values, map_distinct, null_mask
from elfmesh.ql.values.nested_text import nested_text
from elfmesh.ql.values.times import parse_shape
from elfmesh.ql.values.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    DURATION,
    FLOAT,
    STRING,
    TIMESTAMP,
    VOID,
    is_decimal,
    is_nested,
)

TARGETS: dict[str, pa.DataType] = {
    "BIGINT": BIGINT, "INT": BIGINT, "SMALLINT": BIGINT, "TINYINT": BIGINT, "DOUBLE": DOUBLE, "FLOAT": FLOAT,
    "STRING": STRING, "BINARY": BINARY, "BOOLEAN": BOOLEAN, "DATE": DATE, "TIMESTAMP": TIMESTAMP,
}  # fmt: skip
"""Target types of CAST besides DECIMAL(p,s), and the types they are stored as."""

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")

_BITS = {"INT": 32, "SMALLINT": 16, "TINYINT": 8}
_CONTROL = "".join(chr(code) for code in range(33))
"""Characters that Spark trims around a number or date: all up to the space."""

_ZONE = r"(?P<z>z|utc|gmt|ut|(?:utc|gmt|ut)?[+-]\d{1,2}(?::?\d{2})?)?"
_TIME = r"(?P<h>\d{1,2})(?::(?P<mi>\d{1,2})(?::(?P<s>\d{1,2})(?:\.(?P<f>\d*))?)?)?\s*" + _ZONE
_STAMP = r"(?i)^[+]?(?P<y>\d{4,6})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T]" + _TIME + r")?)?)?$"
_DAY = r"(?s)^[+]?(?P<y>\d{4,6})(?:-(?P<m>\d{1,2})(?:-(?P<d>\d{1,2})(?:[ T].*)?)?)?$"
_INTEGER = r"^[+-]?(?:\d+(?:\.\d*)?|\.\d*)$"
_WHOLE = r"^[+-]?\d+$"
_NUMBER = r"^[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?[dDfF]?$"


def target_type(target: str) -> pa.DataType:
    match = _DECIMAL.fullmatch(target)
    return TARGETS[target] if match is None else pa.decimal128(int(match[1]), int(match[2]))


def castable(source: pa.DataType, target: str) -> bool:
    if is_nested(source) or source == DURATION:
        return target == "STRING"
    if BINARY in (source, TARGETS.get(target)):
        return target in ("BINARY", "STRING") and source in (BINARY, STRING, VOID)
    return not (target == "DATE" and (source in (BIGINT, DOUBLE, FLOAT, BOOLEAN) or is_decimal(source)))


def cast(array: pa.Array, target: str, *, strict: bool = False) -> pa.Array:
    """Cast an array of an ELF-QL type to a `target` in TARGETS, or DECIMAL(p,s).

    With `strict` (TRY_CAST), a number that does not fit is null instead of truncated, and '5.7' is not an
    integer.
    """
    if not castable(array.type, target):
        raise ValueError(f"{array.type} cannot be cast to {target}")
    if array.type == VOID:
        return pa.nulls(len(array), target_type(target))
    if target == "FLOAT":
        return _to_float(array)
    if array.type == FLOAT and target == "STRING":
        return map_distinct(_format_float, array, STRING)
    if array.type == FLOAT:
        array = pc.cast(array, DOUBLE)
    if target.startswith("DECIMAL"):
        if array.type == DATE:
            return pa.nulls(len(array), target_type(target))
        return decimals.to_decimal(array, target_type(target))
    if target in ("BIGINT", "INT", "SMALLINT", "TINYINT"):
        return _to_integer(array, target, strict)
    if array.type == TARGETS[target]:
        return array
    return {
        "DOUBLE": _to_double, "STRING": to_text, "BOOLEAN": _to_boolean, "DATE": _to_date,
        "TIMESTAMP": _to_timestamp, "BINARY": _to_binary,
    }[target](array)  # fmt: skip


def _to_integer(array: pa.Array, target: str, strict: bool) -> pa.Array:
    bits = _BITS.get(target, 64)
    kind = array.type
    if kind == STRING:
        return _in_range(_text_to_bigint(array, _WHOLE if strict else _INTEGER), bits)
    if kind == BOOLEAN:
        return pc.cast(array, BIGINT)
    if kind == DATE:
        return pa.nulls(len(array), BIGINT)
    if is_decimal(kind):
        array = decimals.to_bigint(array)
    null = null_mask(array)
    if kind == TIMESTAMP:
        return _in_range(from_numpy(int_values(array) // SECOND_US, null, BIGINT), bits)
    if kind == DOUBLE:
        doubles = float_values(array)
        if strict:
            fits = np.abs(np.trunc(doubles)) < 2.0**63
            return _in_range(from_numpy(saturate(doubles), null | ~fits, BIGINT), bits)
        # Spark converts to int for the narrow types: first clamp to its range, then keep the low bits.
        values = saturate(doubles, 32 if bits < 64 else 64)
    elif strict or bits == 64:
        return _in_range(array, bits)
    else:
        values = int_values(array)
    if bits < 64:
        half = 1 << (bits - 1)
        values = ((values + half) & (2 * half - 1)) - half
    return from_numpy(values, null, BIGINT)


def _in_range(array: pa.Array, bits: int) -> pa.Array:
    if bits == 64:
        return array
    edge = 1 << (bits - 1)
    inside = pc.and_(pc.greater_equal(array, -edge), pc.less(array, edge))
    return pc.if_else(inside, array, None)


def saturate(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], bits: int = 64
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Doubles cut towards zero and clamped to a signed integer of `bits`; NaN becomes 0 (Java's rule)."""
    edge = 2.0 ** (bits - 1)
    inside = (values > -edge - 1) & (values < edge)
    whole = np.where(inside, values, 0.0).astype(np.int64)
    whole = np.where(values >= edge, 2 ** (bits - 1) - 1, whole)
    return np.where(values <= -edge, -(2 ** (bits - 1)), whole)


def _text_to_bigint(array: pa.Array, shape: str) -> pa.Array:
    text = pc.utf8_trim(array, _CONTROL)
    text = pc.if_else(pc.match_substring_regex(text, shape), text, None)
    # "+007.9" -> "7": sign and fraction off, no leading zeros, so that the length tells the size.
    text = pc.replace_substring_regex(text, r"^\+|\..*$", "")
    text = pc.replace_substring_regex(text, r"^(-?)0+(\d)", r"\1\2")
    text = pc.if_else(pc.match_substring_regex(text, r"^-?$"), "0", text)
    short = pc.less_equal(pc.binary_length(text), 18)
    if pc.all(short).as_py() is not False:
        return pc.cast(text, BIGINT)
    return map_distinct(_bigint_or_none, text, BIGINT)


def _bigint_or_none(text: str) -> int | None:
    if len(text) > 20:
        return None
    value = int(text)
    return value if -(2**63) <= value < 2**63 else None


def _to_double(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind == BIGINT:
        return pc.cast(array, DOUBLE, safe=False)
    if is_decimal(kind):
        return map_distinct(float, array, DOUBLE)
    if kind == BOOLEAN:
        return pc.cast(pc.cast(array, BIGINT), DOUBLE)
    if kind == TIMESTAMP:
        return from_numpy(int_values(array) / SECOND_US, null_mask(array), DOUBLE)
    if kind == DATE:
        return pa.nulls(len(array), DOUBLE)
    text = pc.utf8_trim(array, _CONTROL)
    plain = pc.match_substring_regex(text, _NUMBER)
    numbers = pc.replace_substring_regex(pc.if_else(plain, text, None), r"^\+|[dDfF]$", "")
    try:
        result = pc.cast(numbers, DOUBLE)
    except pa.ArrowInvalid:  # out of the range of a double, such as 1e400
        result = map_distinct(float, numbers, DOUBLE)
    if pc.all(plain).as_py() is not False:
        return result
    words = map_distinct(_special_double, pc.if_else(plain, None, text), DOUBLE)
    return pc.coalesce(result, words)


def _to_float(array: pa.Array) -> pa.Array:
    given = array if array.type in (BIGINT, FLOAT) else cast(array, "DOUBLE")
    return pc.cast(given, FLOAT, safe=False)


def _format_float(value: float) -> str:
    """A float as Java writes it: the shortest digits that read back as a float."""
    return format_double(float(str(np.float32(value))))


def _special_double(text: str) -> float | None:
    word = text.lower()
    if word == "nan":
        return float("nan")
    if word.lstrip("+-") in ("inf", "infinity") and len(word) - len(word.lstrip("+-")) <= 1:
        return float("-inf") if word[0] == "-" else float("inf")
    return None


def _to_boolean(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind in (BIGINT, DOUBLE):
        return pc.not_equal(array, 0)
    if is_decimal(kind):
        return map_distinct(bool, array, BOOLEAN)
    if kind == TIMESTAMP:
        return pc.not_equal(array.view(pa.int64()), 0)
    if kind == DATE:
        return pa.nulls(len(array), BOOLEAN)
    word = pc.utf8_lower(pc.utf8_trim(array, _CONTROL))
    yes = pc.is_in(word, value_set=pa.array(["t", "true", "y", "yes", "1"]))
    no = pc.is_in(word, value_set=pa.array(["f", "false", "n", "no", "0"]))
    return pc.if_else(pc.or_(yes, no), yes, None)


def _to_date(array: pa.Array) -> pa.Array:
    if array.type == STRING:
        array = parse_shape(pc.utf8_trim(array, _CONTROL), _DAY)
    days = int_values(array) // DAY_US
    return from_numpy(days, null_mask(array), DATE)


def _to_timestamp(array: pa.Array) -> pa.Array:
    kind = array.type
    if kind == STRING:
        return parse_shape(pc.utf8_trim(array, _CONTROL), _STAMP)
    if is_decimal(kind):
        return decimals.to_timestamp(array)
    null = null_mask(array)
    if kind == DATE:
        days = np.asarray(array.view(pa.int32()).fill_null(0).to_numpy(zero_copy_only=False), dtype=np.int64)
        return from_numpy(days * DAY_US, null, TIMESTAMP)
    if kind == BOOLEAN:
        return pc.cast(array, BIGINT).view(TIMESTAMP)
    if kind == DOUBLE:
        values = float_values(array)
        return from_numpy(saturate(values * SECOND_US), null | ~np.isfinite(values), TIMESTAMP)
    seconds = int_values(array)
    edge = (2**63 - 1) // SECOND_US
    inside = (seconds >= -edge) & (seconds <= edge)
    return from_numpy(np.where(inside, seconds, 0) * SECOND_US, null | ~inside, TIMESTAMP)


def _to_binary(array: pa.Array) -> pa.Array:
    return pc.cast(array, BINARY)


def to_text(array: pa.Array) -> pa.Array:
    kind = array.type
    if is_nested(kind):
        return nested_text(array, lambda plain: cast(plain, "STRING"))
    if kind == DOUBLE:
        return map_distinct(format_double, array, STRING)
    if is_decimal(kind):
        return decimals.to_text(array)
    if kind == DURATION:
        return intervals.to_text(array)
    if kind == BINARY:
        return map_distinct(lambda held: held.decode(errors="replace"), array, STRING)
    if kind == TIMESTAMP:
        plain = array.view(pa.int64()).view(pa.timestamp("us"))
        return (
            _with_signs(
                pc.replace_substring_regex(
                    pc.strftime(plain, "%Y-%m-%d %H:%M:%S"), r"\.?0*$", "", max_replacements=1
                )
            )
            if len(array)
            else pa.array([], STRING)
        )
    if kind == DATE:
        return _with_signs(pc.cast(array, STRING))
    return pc.cast(array, STRING)


def _with_signs(times: pa.Array) -> pa.Array:
    """Return the texts of times with a sign before each year of more than four digits, as Java writes it."""
    if not pc.any(pc.greater(pc.find_substring(times, "-"), 4)).as_py():
        return times
    return pc.replace_substring_regex(times, r"^(\d{5})", r"+\1")


def format_double(value: float) -> str:
    """A double as Java writes it: 1.0, 1.0E7, 1.5E-5, NaN, Infinity; the shortest digits that read back."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, exponent = np.format_float_scientific(value, unique=True, trim="0").split("e")
    return f"{mantissa}E{int(exponent)}"
