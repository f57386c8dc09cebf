"""Benchmarks of estimator_train against the alternatives its users have; `python -m benchmarks --help` lists them."""
