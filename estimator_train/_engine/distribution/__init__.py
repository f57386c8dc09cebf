"""Input for replicas, and the tasks of a cluster."""
