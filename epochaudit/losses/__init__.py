"""Which records were truncated, by which replicas, and which consumers had read them."""
