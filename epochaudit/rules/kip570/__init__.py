"""StopReplica and LeaderAndIsr fencing (KIP-570)."""
