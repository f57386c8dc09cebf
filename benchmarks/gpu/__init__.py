"""Compares training on one and several GPUs with Keras' fit: `python -m benchmarks.gpu`; see docs/gpu.md."""
