"""Every module that enters functions into the registry; importing this one fills it."""

from __future__ import annotations

from elfmesh.control.ql import (
    functions_calendar,
    functions_encode,
    functions_filling,
    functions_format,
    functions_hash,
    functions_json,
    functions_list,
    functions_logic,
    functions_map,
    functions_math,
    functions_number,
    functions_regex,
    functions_sketch,
    functions_text,
    functions_time,
    functions_web,
)

__all__ = [
    "functions_calendar", "functions_encode", "functions_filling", "functions_format", "functions_hash",
    "functions_json", "functions_list", "functions_logic", "functions_map", "functions_math",
    "functions_number", "functions_regex", "functions_sketch", "functions_text", "functions_time",
    "functions_web",
]  # fmt: skip
