"""Results of other jobs as input: requests, buffers, and the feed for the jobs that read them."""
