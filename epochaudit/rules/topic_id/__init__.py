"""Topic ids (KIP-516)."""
