"""Systems we compare with, each run as its users would write it; requirements-*.txt say what each needs."""
