"""One file per API the quota serves."""
