"""The coordinator role."""
