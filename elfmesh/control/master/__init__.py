"""The master of a job: who is in its roster, when its intervals close, what its clients are told."""
