"""The KRaft metadata log: raw segments and snapshots, and dumps by kafka-dump-log."""
