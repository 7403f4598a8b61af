"""Connections between agents, and the listener of the API."""
