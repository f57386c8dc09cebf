"""Keras models as the Estimator's loop runs them: a private room."""
