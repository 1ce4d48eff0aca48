"""Recorded formats: the files of a capture, and their lines as rows of the events table."""
