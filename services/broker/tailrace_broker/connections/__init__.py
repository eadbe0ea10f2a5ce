"""Connections of clients that come to the broker itself, or are handed over by a gateway."""
