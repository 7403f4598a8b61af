"""Panes, and sliding windows over trees."""
