"""The archive of a stream: its lines as Parquet files, with the source position of each row."""
