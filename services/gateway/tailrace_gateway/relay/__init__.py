"""The relay of data requests: the connection to the node, and what goes through without being collected."""
