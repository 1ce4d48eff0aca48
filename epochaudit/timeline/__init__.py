"""`epochaudit timeline`: everything recorded about one partition, merged over all nodes and clients."""
