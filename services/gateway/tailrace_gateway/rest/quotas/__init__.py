"""Quotas over HTTP."""
