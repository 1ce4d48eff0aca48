"""Committed offsets and their leader epochs (KIP-320)."""
