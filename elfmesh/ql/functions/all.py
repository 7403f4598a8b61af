"""Imports of every module that registers functions."""

from __future__ import annotations

from elfmesh.ql.functions import (
    calendar_functions,
    charsets,
    conditionals,
    date_parts,
    datetime_functions,
    encoding,
    formatting,
    hashing,
    json_values,
    lists,
    maps,
    math_functions,
    numbers,
    ordered_text,
    padding,
    regex_functions,
    searching,
    sketch_results,
    strings,
    web,
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
    "json_values",
    "lists",
    "maps",
    "math_functions",
    "numbers",
    "ordered_text",
    "padding",
    "regex_functions",
    "searching",
    "sketch_results",
    "strings",
    "web",
]  # fmt: skip
