"""Frames of the control plane: requests between controllers and brokers, elections, ISR changes, topics."""
