"""Topics to a Delta table and back, for recovery: every record with all that Kafka keeps of it, in its order."""
