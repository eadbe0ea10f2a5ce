"""Brokers over HTTP."""
