"""Inputs of streams that are not files: they write to a spool on disk, which is read like a log."""
