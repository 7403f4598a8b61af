"""Metrics of an agent."""
