"""What an agent keeps on disk, and in which order."""
