"""Encodings of rows and columns."""
