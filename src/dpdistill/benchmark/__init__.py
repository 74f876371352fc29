"""Benchmarks: suites of runs, their lines of results, and pages of them."""

SUITES = ("smoke", "papers", "frontier", "subspaces", "dosser", "transferred", "accuracy")
"""Suites of benchmarks that come with the package, in the folder suites."""
