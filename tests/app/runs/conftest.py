"""Images for a run, of `command_fixtures`."""

from command_fixtures import scans

__all__ = ["scans"]
