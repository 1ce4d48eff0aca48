"""The Spark data source: byte ranges in, Arrow record batches out."""
