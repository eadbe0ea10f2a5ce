"""Elections of leaders over HTTP."""
