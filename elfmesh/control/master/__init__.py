"""The master of a job: its roster, the end of its intervals, and the answers to its clients."""
