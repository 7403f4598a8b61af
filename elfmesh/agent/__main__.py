"""`python -m elfmesh.agent` is the `elf` command, for where no script is installed.

The command's room is above this one, so it is run by its name and not imported.
"""

from __future__ import annotations

import runpy

runpy.run_module("elfmesh.cli", run_name="__main__", alter_sys=True)
