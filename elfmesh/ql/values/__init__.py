"""Typed columns and what is done to whole columns of them."""
