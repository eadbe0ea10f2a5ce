"""The quota role."""
