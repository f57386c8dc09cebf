"""The command, and its datasets, models and reports."""
