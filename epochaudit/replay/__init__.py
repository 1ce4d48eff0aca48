"""Replay: one module per frame, each putting beside every judged subject the state that it met."""
