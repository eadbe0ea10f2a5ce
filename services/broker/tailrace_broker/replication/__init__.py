"""Replication: what a leader knows of its followers, what a follower does with an answer, and the loops that talk."""
