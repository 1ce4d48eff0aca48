"""What leaders promised producers."""
