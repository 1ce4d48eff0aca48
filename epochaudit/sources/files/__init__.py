"""Capture files: listing, opening, decompression, archives, URIs."""
