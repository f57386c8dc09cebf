"""Runs as objects of Python: `new` makes one, `open` reads one; see `Run`."""

from estimator_train.app.running.run import Plan, Run, new, open

__all__ = ["Plan", "Run", "new", "open"]
