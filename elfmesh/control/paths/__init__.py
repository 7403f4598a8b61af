"""Room: control.paths.

Where the contributions of a job at several regions are reduced: groups, gateways and their layout.
"""
