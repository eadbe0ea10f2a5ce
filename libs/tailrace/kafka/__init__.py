"""What Apache Kafka calls things and the numbers it gives them, each once. Values only: nothing here does anything."""
