"""Room local: one process, no network. `elfmesh.run`, `elf run` and the tests of jobs."""
