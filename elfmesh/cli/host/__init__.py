"""Verbs that run, configure and examine the agent of a host."""
