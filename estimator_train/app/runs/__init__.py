"""What a run has written to its directory, and the object that reads it back."""
