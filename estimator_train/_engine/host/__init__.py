"""The host's memory, iterators and worker processes: a private room."""
