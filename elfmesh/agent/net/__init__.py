"""Connections between agents."""
