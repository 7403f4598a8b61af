"""Sinks, which copy the results of jobs to other systems, each interval once."""
