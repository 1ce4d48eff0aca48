"""The metadata quorum and its epochs (KIP-595)."""
