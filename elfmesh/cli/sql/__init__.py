"""`elf sql`: statements over log files or the fleet, typed at a prompt or read from a script."""
