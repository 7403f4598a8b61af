"""Removal of ELF-QL's own clauses from the tokens before sqlglot parses the rest."""
