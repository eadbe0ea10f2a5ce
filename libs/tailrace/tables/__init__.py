"""Topics as Delta tables: a client that reads records and commits rows, each record exactly once."""
