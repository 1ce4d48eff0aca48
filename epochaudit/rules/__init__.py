"""Rules: one file per rule, in a folder per proposal."""
