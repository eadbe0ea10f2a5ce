"""Assignors on the server (KIP-848): `uniform` and `range`. As in Apache Kafka 4.4, none of them looks at racks."""
