"""The data directory as a whole: backup, restore, examination, repair."""
