"""Producers of partitions over HTTP."""
