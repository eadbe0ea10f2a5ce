"""Requests that are collected and answered by another service, and what is answered while that one is away."""
