"""The interface of input_fns, and the order of their examples."""
