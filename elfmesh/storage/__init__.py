"""The files of an agent: frame log, state log, results logs, dead letters, spill files."""
