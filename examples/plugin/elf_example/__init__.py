"""One plug-in of each kind for elfmesh: the format `bars`, the function `vowels`, the sink `lines`."""
