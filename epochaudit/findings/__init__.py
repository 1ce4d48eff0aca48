"""Findings: verdict rows with ids, order, and the recorded lines that prove them."""
