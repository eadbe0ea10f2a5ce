"""The broker role."""
