"""High watermarks."""
