"""UpdateMetadata requests."""
