"""The shared folder: file names and limits, and functions that write and read a synthetic set."""
