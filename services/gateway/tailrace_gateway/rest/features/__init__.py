"""Features and their levels over HTTP."""
