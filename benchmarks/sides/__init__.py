"""A module per peer with the code that its user would write for each benchmark, run in the peer's environment."""
