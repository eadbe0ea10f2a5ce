"""Records that are written over HTTP."""
