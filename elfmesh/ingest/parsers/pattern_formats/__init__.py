"""Formats that are defined by patterns; RE2 processes whole blocks."""
