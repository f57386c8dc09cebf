"""Campaigns of faults: what users and machines do to runs, tried in numbers. Each has a `run(count, seed, folder)`."""
