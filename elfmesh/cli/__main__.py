"""Runs the `elf` command as `python -m elfmesh.cli`."""

from elfmesh.cli.entry import main

main()
