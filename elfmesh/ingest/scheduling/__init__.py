"""Which job's work is done next, and how much of it at a time."""
