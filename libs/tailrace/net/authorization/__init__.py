"""Authorization in a role: verdicts by the ACLs of the metadata image."""
