"""Formats that are patterns: whole blocks through RE2."""
