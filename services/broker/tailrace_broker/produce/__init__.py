"""Produce: plain.py serves every request, fast.py the usual one with less work; validation, producer ids."""
