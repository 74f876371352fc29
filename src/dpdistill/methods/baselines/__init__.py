"""Methods to compare with: they run without a guarantee, or are weaker than the others."""
