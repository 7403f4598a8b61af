"""Jobs of the systems we compare with, each run as its users would write it."""
