"""Room: control/ql."""
