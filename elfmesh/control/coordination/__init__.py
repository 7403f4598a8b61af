"""Labels of dataflows: which outputs can differ between runs, readers or replicas, why, and what repairs it.

The modules are cores: they read no file and no clock. `annotations` makes a graph from plain values,
`analysis` derives the label of each output, `repair` searches for the cheapest coordination, and `drawing`
prints.

Paper: Alvaro, Conway, Hellerstein, Maier, Blazes, ICDE 2014 (extended version: arXiv 1309.3324v2).
"""
