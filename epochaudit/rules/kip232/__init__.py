"""Leader epochs in metadata (KIP-232)."""
