"""Which releases of Kafka write the messages that epochaudit reads: patterns against the statements in Kafka's class files."""
