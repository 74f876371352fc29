"""Benchmarks: suites of runs, lines of results, and pages of results."""

SUITES = ("smoke", "papers", "frontier", "subspaces", "dosser", "transferred", "accuracy", "medical")
"""Names of the package's suites, in the folder suites."""
