"""The results logs of jobs: segments, pages of rows, and the handling of damage."""
