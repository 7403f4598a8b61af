"""Results of other jobs: found, polled, buffered, and fed to the jobs that read them."""
