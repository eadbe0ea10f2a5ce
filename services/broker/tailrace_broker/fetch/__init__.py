"""Fetch: plain.py serves every request, fast.py the usual one with less work; sessions, lookups by timestamp."""
