"""elfmesh: SQL over the logs of a whole fleet, computed where the logs are written."""

__version__ = "0.1.0"
