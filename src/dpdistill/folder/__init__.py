"""The shared folder: its file names and limits, a synthetic set written and read."""
