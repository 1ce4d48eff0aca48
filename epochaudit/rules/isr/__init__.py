"""ISR changes and replicas' eligibility (KIP-841)."""
