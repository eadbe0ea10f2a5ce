"""The login of the REST API and the console, TLS of their port, and what a user may ask for."""
