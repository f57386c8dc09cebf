"""The adapter for models of Keras 3; imported for such a model only."""
