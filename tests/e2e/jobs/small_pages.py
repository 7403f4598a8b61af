"""The `elf` command whose agents make pages of rows beyond 2 kB: what a million keys do, a few hundred do."""

from __future__ import annotations

from functools import partial

from elfmesh.agent.runtime import host_agent
from elfmesh.cli.entry import main
from elfmesh.control.jobs.row_pages import RowLimits

if __name__ == "__main__":
    vars(host_agent)["RowLimits"] = partial(RowLimits, inline=2000, page=2000)
    main()
