"""Accounting: schedules, closed forms, loss distributions and independent bounds; no records, no files."""
