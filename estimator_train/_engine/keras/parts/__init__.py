"""Keras models cut in two or into segments: frozen features and recomputation."""
