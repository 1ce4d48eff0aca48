"""Truncation and divergence (KIP-320)."""
