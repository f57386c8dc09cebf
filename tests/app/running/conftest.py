"""The command, run in this process, and runs for it: fixtures of `command_fixtures`."""

from command_fixtures import command, named_devices, own_flags, quick_models, run_command, scans, settings, trained

__all__ = ["command", "named_devices", "own_flags", "quick_models", "run_command", "scans", "settings", "trained"]
