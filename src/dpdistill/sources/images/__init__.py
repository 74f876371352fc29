"""Image files to records, and back."""
