"""TLS of the clients' listeners: the settings, one encrypted socket, its handshake, and what acts as its transport."""
