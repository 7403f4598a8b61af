"""Verbs that evaluate queries in this process, and on Spark."""
