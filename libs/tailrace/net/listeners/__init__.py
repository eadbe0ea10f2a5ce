"""The listeners of clients, from the configuration."""
