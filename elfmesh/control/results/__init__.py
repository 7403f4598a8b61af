"""Results: records, their pages, the log that keeps them."""
