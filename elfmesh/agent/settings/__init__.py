"""agent.toml: from TOML to checked dataclasses."""
