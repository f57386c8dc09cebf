"""Images and settings for a run, of `command_fixtures`."""

from command_fixtures import scans, settings

__all__ = ["scans", "settings"]
