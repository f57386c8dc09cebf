"""What each command does once its arguments are checked, with TensorFlow."""
