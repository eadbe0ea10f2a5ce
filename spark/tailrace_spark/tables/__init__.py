"""Delta tables: what every job writes, and the commands that keep them small."""
