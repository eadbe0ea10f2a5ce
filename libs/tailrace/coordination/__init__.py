"""What coordinators keep in internal topics, byte for byte as Apache Kafka writes it. Pure."""
