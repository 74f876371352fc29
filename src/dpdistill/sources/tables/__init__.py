"""Table files and frames to records, and back."""
