"""Room: ingest. From the bytes of logs to sealed intervals, for every job of this host."""
