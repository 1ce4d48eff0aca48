"""Log lines: layouts, container envelopes and log4j conversion patterns."""
