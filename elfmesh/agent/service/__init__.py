"""The agent as a service: signals, and messages to the service manager."""
