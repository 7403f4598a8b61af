"""Closing intervals: the closer, its sources, the partial store, and its policies."""
