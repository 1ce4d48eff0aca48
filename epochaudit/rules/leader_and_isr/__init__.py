"""LeaderAndIsr requests (KIP-570)."""
