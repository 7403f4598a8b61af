"""Expressions of a query: nodes, operands, and the closed lists of operators and aggregates."""
