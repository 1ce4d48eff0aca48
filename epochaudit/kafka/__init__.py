"""Kafka's numbers by Kafka's names: error codes, releases, request versions, reserved field values."""
