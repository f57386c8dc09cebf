"""What is exported: the inputs, outputs, signatures and directory of a SavedModel."""
