"""Room: overlay."""
