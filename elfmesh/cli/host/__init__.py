"""Commands that run, configure and examine the agent of this host."""
