"""Public pre-trained encoders: their files, found by hash, and their graphs as functions of one image."""
