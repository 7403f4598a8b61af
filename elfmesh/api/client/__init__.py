"""Clients of an agent's HTTP API, and programs beside agents."""
