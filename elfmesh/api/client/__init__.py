"""Clients of an agent's HTTP API, and the base class of programs beside agents."""
