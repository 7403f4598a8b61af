"""Swarm simulation: whole agents on fake disks, a hostile network and clocks that lie, one seed at a time."""
