"""Leader elections."""
