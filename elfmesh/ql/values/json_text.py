"""Reading of JSON text in logs, and compact writing with numbers in Spark's format.

Invalid or too deeply nested JSON is None, because fields of logs are not trusted.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

from elfmesh.ql.values.cast import format_double


class NumberText(str):
    """Number with the spelling of its text."""

    __slots__ = ()


def _refused(_name: str) -> Any:
    raise ValueError("NaN and Infinity are not JSON")


def _real(text: str) -> NumberText:
    return NumberText(format_double(float(text)))


_DECODER = json.JSONDecoder(parse_float=_real, parse_int=NumberText, parse_constant=_refused)


@lru_cache(maxsize=1024)
def loaded(text: str) -> Any:
    """Return the value of a JSON text; None for null and for invalid JSON. Callers must not change it."""
    try:
        return _DECODER.decode(text)
    except (ValueError, RecursionError):
        return None


def dumped(value: Any) -> str:
    return str(value) if isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    if isinstance(value, NumberText):
        return str(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{_written(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_written, value)) + "]"
    return _quoted(value)


def _quoted(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
