"""Imports of every module that registers functions."""

from __future__ import annotations

from elfmesh.ql.expressions.plugin_functions import register
from elfmesh.ql.functions import (
    calendar_functions,
    charsets,
    conditionals,
    date_parts,
    datetime_functions,
    encoding,
    formatting,
    hashing,
    math_functions,
    number_text,
    numbers,
    ordered_text,
    padding,
    regex_functions,
    searching,
    sketch_results,
    strings,
    web,
)
from elfmesh.ql.functions.nested import (
    higher_order,
    json_values,
    list_edits,
    list_making,
    lists,
    maps,
    structs,
)

__all__ = [
    "calendar_functions",
    "charsets",
    "conditionals",
    "date_parts",
    "datetime_functions",
    "encoding",
    "formatting",
    "hashing",
    "higher_order",
    "json_values",
    "list_edits",
    "list_making",
    "lists",
    "maps",
    "math_functions",
    "number_text",
    "numbers",
    "ordered_text",
    "padding",
    "regex_functions",
    "searching",
    "sketch_results",
    "strings",
    "structs",
    "web",
]  # fmt: skip

register()  # after the built-in functions, whose names plug-ins cannot take
