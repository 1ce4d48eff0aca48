"""Parses requests and responses as text of Kafka 1.0 to 2.7 into the structs of the JSON log."""
