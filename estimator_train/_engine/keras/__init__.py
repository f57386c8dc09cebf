"""Runs Keras models in the Estimator's loop; a private package."""
