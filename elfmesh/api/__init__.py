"""The HTTP API of an agent, its live page, its clients, and the identity of callers."""
