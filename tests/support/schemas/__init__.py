"""Messages that kafka-python has no schema for, in Kafka's schema format."""
