"""Fetch fencing (KIP-320)."""
