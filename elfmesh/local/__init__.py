"""The embedded engine in one process without a network: `elfmesh.run`, `elf run` and job tests."""
