"""What the relay asks of quotas, and the leases behind it."""
