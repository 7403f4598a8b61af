"""The live page: static files that any agent serves at its API's address, and routes that it asks for."""
