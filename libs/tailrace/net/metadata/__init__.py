"""How a role follows `__cluster_metadata`, and keeps its last image."""
