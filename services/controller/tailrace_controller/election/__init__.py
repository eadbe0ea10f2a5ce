"""Which controller is active: the lease, standing for it, and whether the log may be decided on."""
