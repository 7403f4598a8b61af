"""Sinks: a job's results, carried on to where people keep data, each interval once."""
