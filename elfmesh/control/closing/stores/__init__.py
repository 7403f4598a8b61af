"""What the trees of a job have collected for its open intervals."""
