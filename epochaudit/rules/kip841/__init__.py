"""ISR eligibility (KIP-841)."""
