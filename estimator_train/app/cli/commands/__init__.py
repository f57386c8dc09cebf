"""The commands and their flags. Arguments are checked before TensorFlow is imported."""
