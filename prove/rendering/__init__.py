"""Writes histories as the files that Kafka would have written: `files.write`, and a module for each kind of line.

The layouts are those of Kafka's sources at the release's tag, and of recorded lines.
"""
