"""Reads and writes image files."""
