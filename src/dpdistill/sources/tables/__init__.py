"""Reads and writes tables in files, frames and databases."""
