"""What Apache Kafka calls things and the numbers it gives them, each once. Pure."""
