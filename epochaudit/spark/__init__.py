"""Spark: sessions, their settings, and DataFrames that are computed once."""
