"""How brokers leave the fenced state."""
