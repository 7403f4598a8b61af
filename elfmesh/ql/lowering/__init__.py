"""From drafts to what agents compute and what the root does with it."""
