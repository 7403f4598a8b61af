"""The running agent of a host: the core, the pump that drives it, and their assembly."""
