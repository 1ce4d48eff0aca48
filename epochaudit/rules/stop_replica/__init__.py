"""StopReplica requests (KIP-570)."""
