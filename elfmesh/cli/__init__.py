"""The `elf` command, and the commands that work on this host."""
