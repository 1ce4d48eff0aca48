"""Discovery: which recorded format a file holds, and which node wrote it."""
