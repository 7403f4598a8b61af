"""The archive of a stream: its lines as Parquet files, each row with where it came from."""
