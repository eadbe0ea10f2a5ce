"""One file per API the broker serves."""
