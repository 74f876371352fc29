"""Examines a machine: what works here, and what would be refused or would endanger a guarantee."""
