"""Room control: the state machines of jobs, sans-IO: manifests, control registers, masters and members.

Paper: ELF 2.4, 3.
"""
