"""ListOffsets fencing (KIP-320)."""
