"""Functions of plug-ins, which are registered beside the built-in ones.

The module checks what a plug-in declares and what it returns. It refuses a plug-in that declares an unknown
type, or whose name ELF-QL has.
"""

from __future__ import annotations

import re
from typing import Any

import pyarrow as pa

from elfmesh.errors import DataError
from elfmesh.plugins import FUNCTIONS as GROUP
from elfmesh.plugins import Plugin, plugins, refuse
from elfmesh.ql.expressions.aggregates import AGGREGATES
from elfmesh.ql.expressions.refusals import GENERATORS, GROUPING, OVER_FUNCTIONS, WINDOWS
from elfmesh.ql.expressions.registry import FUNCTIONS, simple
from elfmesh.ql.values.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, type_name

TYPES = {type_name(kind): kind for kind in (STRING, BIGINT, DOUBLE, BOOLEAN, BINARY, DATE, TIMESTAMP)}
LABELS = ("CR", "OR")
NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
UNCONFLUENT: dict[str, str] = {}
"""Names of functions that do not declare the label CR, with their packages."""


def register() -> None:
    """Register the functions of all plug-ins. Called once, after the built-in functions."""
    for plugin in list(plugins(GROUP).values()):
        try:
            reason, function = _reason(plugin), plugin.made()
        except Exception as error:
            reason, function = f"it cannot be made: {type(error).__name__}: {error}", None
        if reason or function is None:
            refuse(plugin, reason)
            continue
        takes = [TYPES[each] for each in function.takes]
        signature = f"{plugin.name}({', '.join(function.takes)})"
        kernel = _Kernel(plugin, function, TYPES[function.gives])
        simple(plugin.name, takes, TYPES[function.gives], kernel, arrays=True, signature=signature)
        if getattr(function, "label", "OR") != "CR":
            UNCONFLUENT[plugin.name] = plugin.package


def _reason(plugin: Plugin) -> str:
    taken = (FUNCTIONS, AGGREGATES, WINDOWS, OVER_FUNCTIONS, GENERATORS, GROUPING)
    if not NAME.fullmatch(plugin.name):
        return "its name is not of lower-case letters, digits and _"
    if any(plugin.name in names for names in taken):
        return "ELF-QL has a function of this name"
    takes, gives = getattr(plugin.made, "takes", None), getattr(plugin.made, "gives", None)
    if not isinstance(takes, list | tuple) or not takes:
        return "it declares no list of types in takes"
    if unknown := [each for each in (*takes, gives) if each not in TYPES]:
        return f"it declares the type {unknown[0]!r}, which is none of {', '.join(TYPES)}"
    if getattr(plugin.made, "label", "OR") not in LABELS:
        return f"it declares the label {plugin.made.label!r}, which is neither CR nor OR"
    return ""


class _Kernel:
    """Calls a function with whole columns and checks its result."""

    def __init__(self, plugin: Plugin, function: Any, gives: pa.DataType) -> None:
        self._plugin, self._function, self._gives = plugin, function, gives

    def __call__(self, *arrays: pa.Array) -> pa.Array:
        try:
            found = self._function(*arrays)
        except Exception as error:
            raise self._error(f"raised {type(error).__name__}: {error}") from None
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        if not isinstance(found, pa.Array):
            raise self._error(f"returned {type(found).__name__}, not a pyarrow array")
        if len(found) != len(arrays[0]):
            raise self._error(f"returned {len(found)} values for {len(arrays[0])} rows")
        try:
            return found if found.type == self._gives else found.cast(self._gives)
        except pa.ArrowException:
            raise self._error(f"returned {found.type}, not {type_name(self._gives)}") from None

    def _error(self, what: str) -> DataError:
        return DataError(f"the function {self._plugin.name} of {self._plugin.package} {what}")
