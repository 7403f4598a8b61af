"""What the agent may take from its host, and who gives way first when that is not enough."""
