"""Runs the `elf` command as `python -m elfmesh.agent`, for hosts without an installed script.

The module runs `elfmesh.cli` by name, because this room must not import it.
"""

from __future__ import annotations

import runpy

runpy.run_module("elfmesh.cli", run_name="__main__", alter_sys=True)
