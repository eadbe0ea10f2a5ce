"""What groups that are assigned on the server share (Kafka's ModernGroup): owned partitions, and how they move."""
