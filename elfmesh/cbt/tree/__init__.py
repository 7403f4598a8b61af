"""The compressed buffer tree of one table."""
