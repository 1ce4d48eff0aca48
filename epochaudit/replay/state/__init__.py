"""State at a point of a clock: leader epochs, ISRs, broker epochs, topic ids. Frames join it to their subjects."""
