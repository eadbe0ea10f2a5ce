"""Configs over HTTP."""
