"""The controller role."""
