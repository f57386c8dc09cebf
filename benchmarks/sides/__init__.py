"""One module a peer: what a user of it would write for each work, run in a process of the peer's environment."""
