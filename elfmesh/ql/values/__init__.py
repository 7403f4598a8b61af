"""Typed columns and operations on whole columns."""
