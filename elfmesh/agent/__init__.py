"""The agent of a host: network, settings, sinks, archives, data directory and service.

Paper: ELF 2.1, 3.
"""
