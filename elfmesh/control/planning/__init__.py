"""Replication planning: which tasks of a topology are worth a replica.

Pure functions on a topology, without clock and files: the five algorithms of PPA as printed, and three of
ours. Paper: Su & Zhou, Tolerating Correlated Failures in Massively Parallel Stream Processing Engines (PPA).
"""
