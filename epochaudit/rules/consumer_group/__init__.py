"""Generations of consumer groups."""
