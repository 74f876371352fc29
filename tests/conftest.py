"""Puts this folder on the path, so that tests in every subfolder can import the shared checks of contract/."""
