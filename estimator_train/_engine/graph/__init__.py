"""Builds and runs the v1 graphs of a model_fn. This package is private."""
