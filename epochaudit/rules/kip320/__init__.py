"""Fetch fencing and log truncation (KIP-320)."""
