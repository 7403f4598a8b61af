"""Authorisation: the role that each route and each message needs, and what the agent allows."""
