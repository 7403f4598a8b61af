"""Lowering of drafts to parts, which agents compute, and relations, which the root evaluates."""
