"""Room: control.paths.

Where the contributions of a job at several regions are reduced and held: groups, gateways, sites and their
layout, and what a new master gets from the sites of its predecessor.
"""
