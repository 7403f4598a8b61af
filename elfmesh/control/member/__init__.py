"""One agent's part in a job: its contributions, where they are kept, what became of them."""
