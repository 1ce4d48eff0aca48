"""The order of epochs in logs, checkpoints and records."""
