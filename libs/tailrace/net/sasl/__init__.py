"""SASL of clients at the process that holds their sockets, a gateway or a broker."""
