"""One file per API the controller serves."""
