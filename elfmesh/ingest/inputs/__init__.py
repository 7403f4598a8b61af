"""Streams that are not files: what comes in is spooled, and then read as any log."""
