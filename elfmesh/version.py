"""The version of this package, for every part that reports it."""

VERSION = "0.1.0"
