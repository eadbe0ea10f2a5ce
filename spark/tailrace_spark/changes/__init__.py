"""Change data capture: a topic of Debezium's change events to a Delta table that has the current rows."""
