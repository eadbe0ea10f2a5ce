"""Log directories over HTTP."""
