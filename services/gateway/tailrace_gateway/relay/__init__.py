"""The relay of data requests: the client's connection, its node's, and what goes through without being collected."""
