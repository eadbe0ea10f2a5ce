"""Random ACLs, and Apache Kafka's own authorizer."""
