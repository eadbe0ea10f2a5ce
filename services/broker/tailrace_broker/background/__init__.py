"""What goes on behind requests: flushes, retention, checkpoints."""
