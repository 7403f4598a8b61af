"""Functions that make, read and change lists, maps and structs."""
