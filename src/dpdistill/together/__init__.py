"""Several owners distil one set: each adds up its own records, and only the masked sums meet."""
