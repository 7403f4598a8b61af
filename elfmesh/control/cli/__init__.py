"""The commands that talk to agents."""
