"""Commands that query and change jobs through the API of an agent."""
