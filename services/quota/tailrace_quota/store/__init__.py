"""Where leases are kept."""
