"""The hot APIs by hand; tests/protocol shows each equal to the general codec."""
