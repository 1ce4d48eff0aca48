"""Frames of the data plane: fetches, offsets, high watermarks, truncations and replicas' logs."""
