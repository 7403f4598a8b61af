"""Room agent: one host.

Sources, parsers, workers, frame log, data plane, the pump that drives the cores, and the `elf` command.

Paper: ELF 2.1, 3.
"""
