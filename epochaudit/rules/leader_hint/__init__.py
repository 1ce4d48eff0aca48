"""Hints at leaders in answers (KIP-951)."""
