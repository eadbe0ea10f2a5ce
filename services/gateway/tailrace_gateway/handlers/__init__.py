"""One file per API the gateway serves."""
