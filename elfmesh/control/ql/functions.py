"""Every module that enters functions into the registry; importing this one fills it."""

from __future__ import annotations

from elfmesh.control.ql import functions_logic, functions_math, functions_text, functions_time

__all__ = ["functions_logic", "functions_math", "functions_text", "functions_time"]
