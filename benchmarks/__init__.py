"""What estimator_train takes beside what its users would take otherwise; `python -m benchmarks --help` lists it."""
