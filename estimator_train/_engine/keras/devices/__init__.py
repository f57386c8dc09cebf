"""One Keras model on several devices, and how much memory it needs there."""
