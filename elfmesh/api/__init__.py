"""Room api: HTTP, the live page, clients, identity."""
