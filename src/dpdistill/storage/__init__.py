"""Storage: records, growable arrays, feature store, shards, memory limits, atomic files."""
