"""Runs the commands, with TensorFlow, once their arguments are checked."""
