"""Users over HTTP: those that log in with a password."""
