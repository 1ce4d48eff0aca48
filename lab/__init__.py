"""Real Kafka clusters on this machine that check epochaudit: see lab/README.md."""
