"""Verbs that talk to agents about jobs and results."""
