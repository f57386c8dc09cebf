"""The tasks of a cluster: what each does, when it ends, and how they agree."""
