"""What requests and responses of Kafka 1.0 to 2.7 look like as text, and how they become the structs of the JSON log."""
