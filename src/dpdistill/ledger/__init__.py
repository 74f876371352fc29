"""What was paid: by a run, and by all runs on a data set."""
