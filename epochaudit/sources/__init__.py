"""Recorded formats: what a capture holds, and each format's lines as rows of the events table."""
