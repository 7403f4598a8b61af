"""The command `elf demo`."""
