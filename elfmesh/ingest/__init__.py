"""Room ingest: from the bytes of logs to sealed intervals, for every job of this host."""
