"""Kafka's record batch format, version 2, with all compressions."""
