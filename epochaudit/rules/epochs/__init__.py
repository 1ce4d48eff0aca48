"""Controller, broker, leader and partition epochs."""
