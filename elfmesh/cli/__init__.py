"""The `elf` command."""
