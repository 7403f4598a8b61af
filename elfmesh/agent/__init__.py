"""Room: agent."""
