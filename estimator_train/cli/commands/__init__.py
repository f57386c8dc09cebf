"""The flags of each command. Nothing here imports TensorFlow before its arguments are checked."""
