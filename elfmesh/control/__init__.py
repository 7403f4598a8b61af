"""Room control: jobs.

The language, manifests, masters and members, results logs, the HTTP API and its client.

Paper: ELF 2.4, 3.
"""
