"""Room: control."""
