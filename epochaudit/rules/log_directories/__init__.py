"""Log directories of brokers (KIP-858)."""
