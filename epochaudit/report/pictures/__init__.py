"""Pictures of what happened to a partition: what they show, how it is laid out, and how it is drawn as SVG."""
