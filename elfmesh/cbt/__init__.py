"""Room: cbt."""
