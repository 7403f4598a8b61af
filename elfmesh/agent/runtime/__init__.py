"""One agent on its host: the core, the pump that drives it, and its parts put together."""
