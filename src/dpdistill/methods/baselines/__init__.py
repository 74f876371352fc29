"""Baseline methods: they have no guarantee, or are less accurate than the other methods."""
