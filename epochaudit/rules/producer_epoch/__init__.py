"""Producer ids and producer epochs."""
