"""The classic group protocol as Apache Kafka 4.3's group coordinator runs it (KIP-345, 394, 559, 814)."""
