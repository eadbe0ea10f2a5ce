"""One file per API the coordinator serves."""
