"""Python functions of jobs: signed, verified here, and evaluated in processes of their own."""
