"""How long a test waits for a condition or for a process: longer than any loaded machine takes."""

PATIENCE_S = 300.0
