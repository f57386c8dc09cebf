"""The part of each command that needs TensorFlow, run once its arguments are checked."""
