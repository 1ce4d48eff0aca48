"""Broker epochs."""
