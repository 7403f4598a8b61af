"""`python -m elfmesh.agent` is the `elf` command, for where no script is installed."""

from elfmesh.agent.cli.entry import main

main()
