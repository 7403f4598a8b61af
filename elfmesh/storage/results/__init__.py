"""The results logs: segments, pages, and what is done about damage."""
