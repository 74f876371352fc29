"""Images that no guarantee covers: procedurally generated ones, and those that a caller declares public."""
