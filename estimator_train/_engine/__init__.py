"""What runs underneath the library. Nothing here is public."""
