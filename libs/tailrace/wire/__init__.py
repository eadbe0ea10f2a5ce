"""Kafka's protocol: every message of every API, its rules, and fast decoders for the hot ones. Pure."""
