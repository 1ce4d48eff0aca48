"""Controller epochs."""
