"""Ledgers: the payments of a run, and of all runs on a data set."""
