"""ACLs over HTTP."""
