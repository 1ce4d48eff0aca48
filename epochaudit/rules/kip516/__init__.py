"""Topic identifiers (KIP-516)."""
