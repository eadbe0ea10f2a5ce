"""How a role becomes a member of the cluster, and where members are reached."""
