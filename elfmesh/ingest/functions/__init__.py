"""Python functions of jobs: their admission, and their evaluation in confined processes."""
