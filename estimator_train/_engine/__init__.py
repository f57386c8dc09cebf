"""The machinery below the library. Nothing here is public."""
