"""The live page: static files and routes that every agent serves at the address of its API."""
