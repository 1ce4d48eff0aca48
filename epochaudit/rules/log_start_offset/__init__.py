"""Deleted records and records in tiered storage."""
