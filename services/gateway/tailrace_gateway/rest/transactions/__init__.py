"""Transactions over HTTP."""
