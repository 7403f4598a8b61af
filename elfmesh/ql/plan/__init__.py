"""Meaning of a statement: frozen data between the parser and the engine."""
