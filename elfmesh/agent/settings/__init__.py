"""The configuration of an agent: reads and checks agent.toml."""
