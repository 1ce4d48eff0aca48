"""Data segments of partitions: batch headers, from raw segments or from kafka-dump-log."""
