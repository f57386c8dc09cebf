"""The command, and its datasets, models, recipes and reports."""
