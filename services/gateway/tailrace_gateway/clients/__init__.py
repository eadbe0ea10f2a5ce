"""The connections of clients: what arrives on one, and where it goes."""
