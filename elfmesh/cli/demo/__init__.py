"""`elf demo`: the main job end to end on one machine."""
