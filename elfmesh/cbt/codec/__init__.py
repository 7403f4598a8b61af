"""Rows and columns as bytes, and back."""
