"""Trainings on one GPU and on several beside Keras' fit, by `python -m benchmarks.gpu`; see docs/gpu.md."""
