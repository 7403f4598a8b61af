"""An agent as a service of its host: what it tells the service manager, and what that may tell it."""
