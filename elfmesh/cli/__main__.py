"""`python -m elfmesh.cli` is the `elf` command."""

from elfmesh.cli.entry import main

main()
