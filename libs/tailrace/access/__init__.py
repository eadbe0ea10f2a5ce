"""Authentication and authorization: SASL exchanges, ACLs, and the rights that each request needs. Pure."""
