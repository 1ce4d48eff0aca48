"""OffsetForLeaderEpoch (KIP-320)."""
