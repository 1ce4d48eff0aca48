"""The APIs with event rows: for each, the typed JSON of its versions and the rows of a request."""
