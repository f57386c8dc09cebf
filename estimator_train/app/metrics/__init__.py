"""Metrics of an evaluation, computed from its labels and predictions, for each kind of task."""
