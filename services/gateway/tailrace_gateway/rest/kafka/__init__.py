"""The admin operations as Kafka requests: what an Admin client would send, and what its answers mean."""
