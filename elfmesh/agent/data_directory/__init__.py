"""Backup, restore, examination and repair of a data directory."""
