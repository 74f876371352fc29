"""Benchmarks: suites of runs, their lines of results, and pages of them."""
