"""Partials: partial aggregates as bytes, which agents send to each other."""
