"""Partial aggregates as bytes: what agents send each other."""
