"""Computations on one record or unit: pure functions that are checked, compiled and tested before they read records."""
