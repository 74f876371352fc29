"""Reconstruction of training records from networks and regressions."""
