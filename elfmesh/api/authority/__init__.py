"""What somebody may do here: the role each route and message needs, and what local configuration allows."""
