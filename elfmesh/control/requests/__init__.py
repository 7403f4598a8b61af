"""Requests of clients and operators, where they are answered."""
