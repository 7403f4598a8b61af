"""Limits on the agent's use of its host, and the choice of jobs to slow down under overload."""
