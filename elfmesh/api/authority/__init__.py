"""What a principal may do here: the role each route and message needs, and what the host allows."""
