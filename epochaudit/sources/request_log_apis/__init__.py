"""The request log's APIs of interest: for each, the typed JSON of its versions and the rows of one request."""
