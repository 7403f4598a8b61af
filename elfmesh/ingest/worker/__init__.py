"""Jobs at one agent: records in, sealed intervals out, each record in exactly one bucket (D-1)."""
