"""Leader epochs in clients' metadata (KIP-232)."""
