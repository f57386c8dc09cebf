"""Replicas, the input of each, and the task of this process in a cluster."""
