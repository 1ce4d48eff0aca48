"""Replay: one module per frame, each adds to every subject the state in which it was processed."""
